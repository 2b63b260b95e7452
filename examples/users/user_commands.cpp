// A command changes entities and saves them with one unit of work, in the transaction that also
// completes its key. So a user, the event about it and the answer to the client are one fact.
#include "user_commands.hpp"

#include "one_time_password.hpp"
#include <posthorn/id.hpp>

#include <algorithm>
#include <utility>

namespace users {
namespace {

namespace ph = posthorn;

constexpr auto is_control = [](char each) { return static_cast<unsigned char>(each) < ' '; };

// Plain: printable ASCII around one @. Whether somebody reads it there, the code will show.
bool is_address(const std::string& text)
{
    const auto at = text.find('@');
    return text.size() <= 200 && at != std::string::npos && at > 0 && at + 1 < text.size() &&
           text.find('@', at + 1) == std::string::npos &&
           std::ranges::all_of(text, [](char each) { return each > ' ' && each < 0x7f; });
}

void check_registration(const register_user& what, ph::problems& found)
{
    if (!is_address(what.email))
        found.add("email", "must be an e-mail address of at most 200 characters");
    if (what.name.empty() || what.name.size() > 200 || std::ranges::any_of(what.name, is_control))
        found.add("name", "must have 1 to 200 bytes and no control characters");
}

void check_verification(const verify_user& what, ph::problems& found)
{
    if (!is_address(what.email))
        found.add("email", "must be an e-mail address of at most 200 characters");
    if (what.code.size() != 10)
        found.add("code", "must have 10 characters");
}

class command_handlers {
public:
    command_handlers(const user_table& table, ph::environment world)
        : table_(&table), world_(std::move(world))
    {}

    std::string register_one(const register_user& what, ph::transaction& tx,
                             ph::problems& found) const
    {
        const auto now = world_.clock->now();
        const auto known = table_->find_by_email(tx, what.email);
        if (known && !known->has_expired(now)) {
            found.add("email", "is registered already");
            return {};
        }
        auto who = known ? *known : user{.id = new_id(now), .email = what.email, .name = {}};
        who.name = what.name;
        who.request_registration();

        ph::store_unit_of_work work(tx);
        if (known)
            table_->update(work, who);
        else
            table_->add(work, who);
        try {
            work.save_changes();
        } catch (const duplicate_row&) { // somebody else was quicker, under another key
            found.add("email", "is registered already");
        }
        return who.id;
    }

    // Nobody learns which of it was wrong.
    std::string verify_one(const verify_user& what, ph::transaction& tx, ph::problems& found) const
    {
        auto who = table_->find_by_email(tx, what.email).value_or(user{});
        const bool right = same_hash(who.code_hash, hash_of_code(who.id, what.code));
        if (!right || who.has_expired(world_.clock->now())) {
            found.add("code", "is wrong, was used or has expired");
            return {};
        }
        who.verify();
        ph::store_unit_of_work work(tx);
        table_->update(work, who);
        work.save_changes();
        return who.id;
    }

private:
    [[nodiscard]] std::string new_id(ph::timestamp now) const
    {
        return to_string(ph::uuid::version_7(now, *world_.random));
    }

    const user_table* table_;
    ph::environment world_;
};

} // namespace

ph::command_pipeline make_commands(const ph::store& store, const user_table& table,
                                   const settings::idempotency_settings& how)
{
    ph::command_pipeline commands(store, {.lock = how.lock, .keep = how.ttl, .wait = how.wait});
    commands.validate<register_user>(check_registration);
    commands.validate<verify_user>(check_verification);

    const command_handlers handlers(table, store.environment());
    commands.handle<register_user>(
        [handlers](const register_user& what, ph::transaction& tx, ph::problems& found) {
            return handlers.register_one(what, tx, found);
        });
    commands.handle<verify_user>(
        [handlers](const verify_user& what, ph::transaction& tx, ph::problems& found) {
            return handlers.verify_one(what, tx, found);
        });
    return commands;
}

} // namespace users
