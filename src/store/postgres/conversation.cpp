// Putting BEGIN in front of the first statement and COMMIT behind the last.
#include "store/postgres/conversation.hpp"

#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>

#include <utility>

namespace posthorn::postgres {
namespace {

const arguments none;

std::vector<rows> without_first(std::vector<rows> all, std::size_t count)
{
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    return all;
}

} // namespace

std::vector<step> conversation::with_begin(std::vector<step> steps, std::size_t& added)
{
    if (!begin_pending_)
        return steps;
    begin_pending_ = false;
    waits_as_callers_do_ = false;
    std::vector<step> all;
    all.push_back(
        {why_ == purpose::read ? sql::begin_reading::text : sql::begin_writing::text, none});
    const auto* settings = db_.local_settings();
    if (settings != nullptr && why_ == purpose::work) {
        patience_ = *settings;
        patience_.set(sql::set_locally::lock_timeout, db_.brief_wait().count());
        settings = &patience_;
    }
    if (settings != nullptr) {
        all.push_back({sql::set_locally::text, *settings});
    } else if (why_ == purpose::work) {
        patience_.set(sql::wait_up_to::lock_timeout, db_.brief_wait().count());
        all.push_back({sql::wait_up_to::text, patience_});
    }
    added = all.size();
    for (const auto& each : steps)
        all.push_back(each);
    return all;
}

rows conversation::run(const contract::named_statement& which, const arguments& with)
{
    if (!begin_pending_)
        return db_.run(which, with);
    return std::move(run_all({{which, with}}).front());
}

std::vector<rows> conversation::run_all(std::vector<step> steps)
{
    std::size_t added = 0;
    auto all = with_begin(std::move(steps), added);
    return without_first(db_.run_all(all), added);
}

std::vector<rows> conversation::run_all_and_commit(std::vector<step> steps, commit_sent commit)
{
    std::size_t added = 0;
    auto all = with_begin(std::move(steps), added);
    all.push_back({sql::commit::text, none});
    auto results = without_first(db_.run_all(all, commit), added);
    results.pop_back();
    committed();
    begin_pending_ = why_ != purpose::lent;
    return results;
}

rows conversation::run_alone(const contract::named_statement& which, const arguments& with,
                             commit_sent commit)
{
    if (db_.local_settings() == nullptr)
        return db_.run(which, with, commit);
    return std::move(run_all_and_commit({{which, with}}, commit).front());
}

void conversation::begin()
{
    if (begin_pending_)
        (void)run_all({});
}

void conversation::begin_for_caller()
{
    const bool failed = PQtransactionStatus(db_.handle()) == PQTRANS_INERROR;
    if (why_ != purpose::lent && !db_.has_callers_path && !gave_callers_path_ && !failed)
        give_callers_path();
    begin();
    if (why_ == purpose::work && !failed && !std::exchange(waits_as_callers_do_, true)) {
        arguments as_the_url_says; // a settlement hook may need a lock of the application's
        as_the_url_says.set(sql::wait_up_to::lock_timeout, db_.lock_timeout().count());
        run(sql::wait_up_to::text, as_the_url_says);
    }
}

// A session of ours gets it once, and keeps it: statements are planned anew whenever it changes.
void conversation::give_callers_path()
{
    if (db_.local_settings() != nullptr) {
        run(sql::callers_path_locally::text);
        gave_callers_path_ = true;
    } else if (begin_pending_) {
        db_.run(sql::callers_path::text);
        db_.has_callers_path = true;
    } else {
        run(sql::callers_path::text);
        gave_callers_path_ = true;
    }
}

void conversation::commit()
{
    if (begin_pending_) // nothing was ever said
        return;
    // A failed transaction would answer COMMIT with a rollback, and call that a success.
    if (PQtransactionStatus(db_.handle()) == PQTRANS_INERROR) {
        rollback();
        throw error(error_code::no_transaction,
                    "an earlier statement of this transaction failed: nothing of it was committed");
    }
    db_.run(sql::commit::text, {}, commit_sent::yes);
    committed();
}

void conversation::committed()
{
    if (std::exchange(gave_callers_path_, false) && db_.local_settings() == nullptr)
        db_.has_callers_path = true; // it was set for the session
}

void conversation::rollback()
{
    if (!begin_pending_ && db_.in_transaction())
        db_.run(sql::rollback::text);
    begin_pending_ = false;
    gave_callers_path_ = false;
}

void conversation::start_over()
{
    rollback();
    begin_pending_ = why_ != purpose::lent;
}

} // namespace posthorn::postgres
