// What a handler sees of the message it handles.
#include "runtime/running_delivery.hpp"
#include <posthorn/handler.hpp>

#include <utility>

namespace posthorn {

delivery_view::delivery_view(std::shared_ptr<const runtime::running_delivery> running)
    : running_(std::move(running))
{}

const delivery& delivery_view::message() const noexcept
{
    return running_->message;
}

const std::string& delivery_view::store() const noexcept
{
    return running_->store;
}

std::stop_token delivery_view::stop_token() const noexcept
{
    return running_->stop.get_token();
}

bool delivery_view::is_lost() const noexcept
{
    return running_->lost.load();
}

std::optional<monotonic_time> delivery_view::deadline() const noexcept
{
    return running_->deadline;
}

outcome runtime::outcome_of_exception(const std::exception_ptr& thrown)
{
    try {
        std::rethrow_exception(thrown);
    } catch (const permanent_failure& failure) {
        return fail(failure.what());
    } catch (const std::exception& failure) {
        return retry(failure.what());
    } catch (...) {
        return retry("the handler threw something that is not a std::exception");
    }
}

} // namespace posthorn
