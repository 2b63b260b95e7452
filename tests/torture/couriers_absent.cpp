// Couriers of a build that lacks one of the brokers they speak to: nobody is sent on a journey.
#include "torture/couriers.hpp"

#include <stdexcept>

namespace posthorn::torture {
namespace {

[[noreturn]] void refuse(const place& where)
{
    throw std::invalid_argument("this build has no courier to " + where.broker);
}

} // namespace

std::shared_ptr<transport> way_to(const place& where, const environment& /*world*/)
{
    refuse(where);
}

std::string destination_of(const place& where)
{
    refuse(where);
}

std::unique_ptr<feed> way_from(const place& where, const environment& /*world*/)
{
    refuse(where);
}

} // namespace posthorn::torture
