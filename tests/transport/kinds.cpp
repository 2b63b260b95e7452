// The transports that the suite runs on.
#include "transport/broker_model.hpp"
#include "transport/transport_under_test.hpp"
#include <posthorn/in_process.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace posthorn::transports {
namespace {

class in_process_under_test final : public transport_under_test {
public:
    std::shared_ptr<transport> open() override { return transport_; }

    void listen(std::string_view pattern) override
    {
        listening_.push_back(
            transport_->subscribe(pattern, [this](const transport_message& what) { take(what); }));
    }

    std::vector<transport_message> arrived(std::size_t at_least) override
    {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::seconds{30}, [&] { return log_.size() >= at_least; });
        return log_;
    }

    void begin(fault which) override
    {
        const std::lock_guard lock(mutex_);
        rejects_ = which == fault::rejection;
    }
    void end(fault /*which*/) override
    {
        const std::lock_guard lock(mutex_);
        rejects_ = false;
    }

private:
    void take(const transport_message& what)
    {
        const std::lock_guard lock(mutex_);
        if (std::exchange(rejects_, false))
            throw std::runtime_error("not today");
        log_.push_back(what);
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<transport_message> log_;
    bool rejects_ = false;
    std::shared_ptr<in_process_transport> transport_ = std::make_shared<in_process_transport>();
    std::vector<in_process_transport::subscription> listening_; // last: it calls into this
};

} // namespace

std::vector<transport_kind> transport_kinds()
{
    return {{.name = "in_process",
             .make = [] { return std::make_unique<in_process_under_test>(); },
             .without = {{fault::outage, "whoever publishes is where the subscribers are"},
                         {fault::silence, "an answer is a return, which cannot get lost"},
                         {fault::pressure, "subscribers run on the thread that publishes"}}},
            {.name = "model", .make = &make_broker_model}};
}

} // namespace posthorn::transports
