// What a worker tells the log of its own work. Lines below its level are not made.
#pragma once

#include "runtime/running_delivery.hpp"
#include <posthorn/environment.hpp>
#include <posthorn/worker.hpp>

#include <exception>

namespace posthorn::runtime {

/// Threads: safe to use from any. Lifetime: that of the sink it is given.
class work_log {
public:
    work_log(const log_sink& to, const worker_options& of) : to_(to), of_(of) {}

    /// One pass is no event: hosts with a timer make many.
    void begins(const run_options& how) const;
    void ended(const run_options& how, const run_report& report) const;
    void failed(const std::exception& why) const;

    /// What became of a message. Its error goes with it, which is the handler's own text.
    void settled(const running_delivery& which, const outcome& said, settled_as answer) const;

private:
    [[nodiscard]] bool takes(log_level level) const { return of_.log_activity && to_.takes(level); }

    const log_sink& to_;
    const worker_options& of_;
};

} // namespace posthorn::runtime
