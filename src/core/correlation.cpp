// The ambient correlation. It belongs to the thread, which is the one thing that all code running
// now has in common; whoever moves work to another thread moves it along.
#include "core/trace_context.hpp"
#include "core/validation.hpp"
#include <posthorn/correlation.hpp>
#include <posthorn/error.hpp>

#include <utility>

namespace posthorn {
namespace {

struct ambience {
    std::shared_ptr<correlation> what; // shared with scopes, and with whoever took it along
    const void* carrier = nullptr;
};

// A function, so that it is made when a thread first asks for it.
ambience& here() noexcept
{
    thread_local ambience mine;
    return mine;
}

correlation_start checked(correlation_start from)
{
    core::check_key("the correlation id", from.id);
    core::check_key("the cause of a correlation", from.cause);
    if (from.id.empty())
        throw error(error_code::invalid_argument,
                    "the id of a correlation is empty; it needs 1 to 255 bytes");
    if (!core::is_traceparent(from.traceparent)) {
        from.traceparent.clear();
        from.tracestate.clear();
    } else if (!core::is_tracestate(from.tracestate)) {
        from.tracestate.clear();
    }
    return from;
}

// Other languages write messages too; what they wrote must not keep a handler from running.
bool is_usable(std::string_view id)
{
    return !id.empty() && core::is_key(id);
}

correlation_start start_from(message_id id, std::string_view belongs_to, const headers& from)
{
    auto own = to_string(id);
    correlation_start result{.id = is_usable(belongs_to) ? std::string(belongs_to) : own,
                             .cause = std::move(own)};
    if (!from.empty()) {
        result.traceparent = core::find_header(from, header::traceparent);
        result.tracestate = core::find_header(from, header::tracestate);
    }
    return result;
}

} // namespace

correlation::correlation(correlation_start from)
    : from_(checked(std::move(from))), sequence_(from_.sequence)
{}

correlation_scope correlation_scope::begin(std::string id, std::int64_t sequence)
{
    correlation_start from{.id = std::move(id), .sequence = sequence};
    if (const auto& around = here().what) {
        from.cause = around->cause();
        from.traceparent = around->traceparent();
        from.tracestate = around->tracestate();
    }
    return begin_from(std::move(from));
}

correlation_scope correlation_scope::begin_from(correlation_start from)
{
    return correlation_scope(std::make_shared<correlation>(std::move(from)));
}

correlation_scope correlation_scope::resume(std::shared_ptr<correlation> what) noexcept
{
    return correlation_scope(std::move(what));
}

std::shared_ptr<correlation> correlation_scope::current() noexcept
{
    return here().what;
}

correlation_scope::correlation_scope(std::shared_ptr<correlation> what) noexcept
    : mine_(what), before_(std::exchange(here().what, std::move(what)))
{}

// On a thread that this scope never reached there is nothing to put back.
correlation_scope::~correlation_scope()
{
    if (here().what == mine_)
        here().what = std::move(before_);
}

correlation_start correlation_of(const delivery& which)
{
    return start_from(which.receipt.id, which.correlation_id, which.headers);
}

correlation_start correlation_of(message_id id, const headers& from)
{
    return start_from(id, core::find_header(from, header::correlation_id), from);
}

core::ambient_visit::ambient_visit(std::shared_ptr<correlation> what, const void* carrier) noexcept
    : before_(std::exchange(here().what, std::move(what))),
      carrier_before_(std::exchange(here().carrier, carrier))
{}

core::ambient_visit::~ambient_visit()
{
    here().what = std::move(before_);
    here().carrier = carrier_before_;
}

const void* core::ambient_visit::carrier() noexcept
{
    return here().carrier;
}

} // namespace posthorn
