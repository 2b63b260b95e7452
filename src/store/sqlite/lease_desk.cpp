// Each answer is committed before it is given. Who finds a lease taken has only looked.
#include "store/sqlite/lease_desk.hpp"

namespace posthorn::sqlite {

template <typename Work>
auto lease_desk::in_one_transaction(Work&& work)
{
    const auto own = with_.session(owned_session::purpose::write);
    auto result = work(own->leases());
    own->commit();
    return result;
}

contract::lease_answer lease_desk::acquire(const contract::lease_request& what)
{
    const auto taken = [&] {
        return with_.session(owned_session::purpose::read)->leases().taken(what);
    };
    if (const auto left = taken())
        return {.granted = {}, .left = *left};
    const auto granted = in_one_transaction([&](leases& table) { return table.grant(what); });
    return granted ? contract::lease_answer{.granted = granted, .left = what.length}
                   : contract::lease_answer{.granted = {}, .left = taken().value_or(duration{})};
}

bool lease_desk::renew(const contract::held_lease& which, duration length)
{
    return in_one_transaction([&](leases& table) { return table.renew(which, length); });
}

bool lease_desk::release(const contract::held_lease& which)
{
    const bool released = in_one_transaction([&](leases& table) { return table.release(which); });
    if (released)
        released_->ring();
    return released;
}

std::optional<posthorn::fence> lease_desk::take_away(std::string_view name,
                                                     std::optional<posthorn::fence> from)
{
    const auto had = in_one_transaction([&](leases& table) { return table.take_away(name, from); });
    if (had)
        released_->ring();
    return had;
}

std::optional<lease_record> lease_desk::find(std::string_view name)
{
    return with_.session(owned_session::purpose::read)->leases().find(name);
}

std::vector<lease_record> lease_desk::list(const lease_filter& which)
{
    return with_.session(owned_session::purpose::read)->leases().list(which);
}

std::unique_ptr<contract::bell> lease_desk::make_bell(std::string_view /*name*/)
{
    return with_.bell(released_);
}

} // namespace posthorn::sqlite
