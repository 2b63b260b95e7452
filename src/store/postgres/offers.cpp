// Making and withdrawing offers, and taking what they brought.
#include "store/postgres/offers.hpp"

#include "store/postgres/claimed_rows.hpp"
#include "store/postgres/statements.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace posthorn::postgres {
namespace {

// "for SESSION FENCE OFFER"
constexpr std::string_view note_start = "for ";

// More than any sleeper has offered: with so many, it asks for all that its owner holds.
constexpr std::size_t told_max = 1'000;

std::vector<std::string_view> views_of(const std::vector<std::string>& texts)
{
    return {texts.begin(), texts.end()};
}

std::vector<std::int64_t> numbers(const std::vector<fence>& fences)
{
    std::vector<std::int64_t> result;
    std::ranges::transform(fences, std::back_inserter(result),
                           [](fence each) { return static_cast<std::int64_t>(each); });
    return result;
}

// The next of the numbers that a text consists of.
std::int64_t cut_number(std::string_view& from)
{
    std::int64_t result = 0;
    from.remove_prefix(std::min(from.find_first_not_of(' '), from.size()));
    const auto [end, failed] = std::from_chars(from.data(), from.data() + from.size(), result);
    from.remove_prefix(static_cast<std::size_t>(end - from.data()));
    return failed == std::errc{} ? result : 0;
}

void register_worker(connection& db, const contract::place_offer& terms)
{
    arguments worker;
    worker.set_text(sql::know_worker::worker, terms.worker);
    db.run(sql::know_worker::text, worker);
}

// Returns how many were there.
std::size_t delete_offers(connection& db, const std::set<std::int64_t>& which)
{
    if (which.empty())
        return 0;
    const std::vector<std::int64_t> ids(which.begin(), which.end());
    arguments with;
    with.set(sql::withdraw_offers::ids, std::span<const std::int64_t>(ids));
    return db.run(sql::withdraw_offers::text, with).changed();
}

} // namespace

// The first time in a session. False: not now, or with these rights never.
bool offers::begin(connection& db, const contract::place_offer& terms)
{
    if (!may_offer_)
        may_offer_ = db.run(sql::may_offer::text).yes(0, 0);
    if (!*may_offer_)
        return false;
    db.run(sql::forget_offers::text);
    register_worker(db, terms);
    // It fails while somebody looks whether we have it: a moment.
    return begun_ = db.run(sql::begin_offering::text).yes(0, 0);
}

void offers::make(connection& db, const contract::place_offer& terms, std::size_t places)
{
    if (places == 0 || open_.size() * 2 > places || (!begun_ && !begin(db, terms)))
        return;
    terms_ = terms;
    using statement = sql::make_offers;
    arguments with;
    with.set_text(statement::owner, terms.owner)
        .set_text(statement::worker, terms.worker)
        .set(statement::lease, terms.lease)
        .set(statement::topics, views_of(terms.topics))
        .set(statement::prefixes, views_of(terms.prefixes))
        .set(statement::places, static_cast<std::int64_t>(places - open_.size()));
    auto made = db.run(statement::text, with);
    if (made.empty()) { // the row of the worker has gone
        register_worker(db, terms);
        made = db.run(statement::text, with);
    }
    for (int row = 0; row < made.size(); ++row)
        open_.insert(made.integer(row, 0));
}

void offers::withdraw(connection& db)
{
    must_ask_ = delete_offers(db, open_) < open_.size() || must_ask_;
    open_.clear();
}

// Whoever has taken one and is about to commit is waited for: asked before, the server would not
// show yet what we were given, and later nobody would ask.
void offers::end_doubts(connection& db)
{
    delete_offers(db, doubtful_);
    doubtful_.clear();
}

bool offers::is_about_one(std::string_view said) noexcept
{
    return said.starts_with(note_start);
}

bool offers::hear(std::string_view said, int session)
{
    if (!is_about_one(said))
        return false;
    said.remove_prefix(note_start.size());
    // Every role can say this. Which offers have been taken, only the table tells.
    if (cut_number(said) != session)
        return true;
    if (told_.size() < told_max)
        told_.push_back(fence{cut_number(said)});
    else
        must_ask_ = true;
    return true;
}

void offers::lose() noexcept
{
    must_ask_ = must_ask_ || terms_.has_value();
    doubtful_.merge(open_);
    open_.clear();
    begun_ = false;
    may_offer_.reset();
}

rows offers::ask(connection& db, const std::vector<fence>& held) const
{
    const auto known = numbers(held);
    const std::vector<std::int64_t> open(open_.begin(), open_.end());
    arguments with;
    if (must_ask_) {
        with.set_text(sql::unheard_of::owner, terms_->owner)
            .set(sql::unheard_of::offers, std::span<const std::int64_t>(open))
            .set(sql::unheard_of::known, std::span<const std::int64_t>(known));
        return db.run(sql::unheard_of::text, with);
    }
    auto told = numbers(told_);
    std::erase_if(told, [&](auto each) { return std::ranges::find(known, each) != known.end(); });
    with.set_text(sql::handed_over::owner, terms_->owner)
        .set(sql::handed_over::offers, std::span<const std::int64_t>(open))
        .set(sql::handed_over::fences, std::span<const std::int64_t>(told));
    return db.run(sql::handed_over::text, with);
}

// Those that are not in the table any more have been taken.
void offers::keep_open(std::string_view ids)
{
    open_.clear();
    while (!ids.empty())
        open_.insert(cut_number(ids));
}

std::vector<contract::handed_batch> offers::take(connection& db, const std::vector<fence>& held)
{
    std::vector<contract::handed_batch> result;
    if (!terms_)
        return result;
    end_doubts(db);
    const auto asked_at = world_.clock->since_boot();
    const auto tables = front_.tables();
    const auto found = ask(db, held);
    must_ask_ = false;
    told_.clear();
    if (!found.empty())
        keep_open(found.text(0, 11));
    for (int row = 0; row < found.size(); ++row) {
        auto next = read_handed_batch(found, row, terms_->lease);
        // By the database's clock it has been held for so long already.
        const auto age = std::max(found.time(row, 10) - next.claimed_at, duration::zero());
        const auto number = next.deliveries.front().receipt.position;
        front_.claimed(number, number, 1, tables);
        result.push_back({.messages = std::move(next), .since = asked_at - age});
    }
    return result;
}

} // namespace posthorn::postgres
