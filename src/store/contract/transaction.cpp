// The public handles over the contract: transaction and store.
#include "core/lineage.hpp"
#include "store/contract/backend.hpp"
#include "store/contract/message_reader.hpp"
#include "store/contract/session.hpp"
#include <posthorn/error.hpp>
#include <posthorn/store.hpp>
#include <posthorn/transaction.hpp>

#include <utility>

namespace posthorn {

transaction::transaction(std::unique_ptr<contract::session> session,
                         std::shared_ptr<contract::backend> of)
    : of_(std::move(of)), session_(std::move(session))
{}
transaction::transaction(transaction&&) noexcept = default;
transaction& transaction::operator=(transaction&& other) noexcept
{
    session_ = std::move(other.session_); // first: the old one still uses its store
    of_ = std::move(other.of_);
    give_back_numbers();
    numbers_ = std::move(other.numbers_);
    other.numbers_.clear();
    return *this;
}
transaction::~transaction()
{
    give_back_numbers();
}

void transaction::depends_on_this(core::drawn_numbers numbers)
{
    if (of_ && !numbers.empty())
        numbers_.push_back(std::move(numbers));
}

// The latest first: only the number that was given out last can go back.
void transaction::give_back_numbers() noexcept
{
    for (; !numbers_.empty(); numbers_.pop_back())
        numbers_.back().give_back();
}

contract::session& transaction::session()
{
    if (!session_)
        throw error(error_code::no_transaction, "the transaction has ended or was moved away");
    return *session_;
}

void transaction::commit()
{
    try {
        session().commit();
    } catch (const error& failure) {
        if (failure.in_doubt())
            numbers_.clear(); // its messages may exist
        throw;
    }
    numbers_.clear();
    session_.reset();
}

void transaction::rollback()
{
    session().rollback();
    session_.reset();
    give_back_numbers();
}

contract::outlook contract::backend::outlook()
{
    const auto view = read();
    contract::outlook result = view->reader().outlook();
    view->commit();
    return result;
}

batch contract::backend::claim(const claim_request& request)
{
    const auto own = begin();
    auto result = own->queue().claim(request);
    own->commit();
    return result;
}

std::vector<enqueued> contract::backend::insert(std::span<const new_message> messages)
{
    const auto own = begin();
    auto result = own->writer().insert(messages);
    own->commit();
    return result;
}

std::vector<settled_as> contract::backend::settle(std::string_view owner, fence which,
                                                  std::span<const decided> what, bool keep_done)
{
    const auto own = begin_work();
    auto result = own->queue().settle(owner, which, what, keep_done);
    own->commit();
    return result;
}

contract::reserved_key contract::backend::reserve(const key_request& what)
{
    const auto own = begin();
    auto result = own->command_keys().reserve(what);
    own->commit();
    return result;
}

store::store(std::shared_ptr<contract::backend> backend) : backend_(std::move(backend)) {}

transaction store::begin()
{
    return transaction{backend_->begin(), backend_};
}

transaction store::read()
{
    return transaction{backend_->read(), backend_};
}

const posthorn::environment& store::environment() const
{
    return backend_->environment();
}

std::string_view to_string(severity level) noexcept
{
    switch (level) {
    case severity::ok: return "ok";
    case severity::warning: return "warning";
    case severity::problem: return "problem";
    }
    return "unknown";
}

} // namespace posthorn
