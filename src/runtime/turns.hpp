// One store at a time, on the caller's thread: for hosts that call on a timer instead of running a
// worker. Each call serves the store that the strategy chooses.
#pragma once

#include "runtime/claimable.hpp"
#include "runtime/handler_table.hpp"
#include <posthorn/serving.hpp>
#include <posthorn/stores.hpp>
#include <posthorn/worker.hpp>

#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace posthorn::runtime {

class turns {
public:
    struct parts {
        store_provider provider;
        serving_options serving;
        std::shared_ptr<const handler_table> table;
        std::shared_ptr<const worker_options> options;
        owner who;
        std::function<std::shared_ptr<claimable>(const store&)> claim_from;
    };

    explicit turns(parts with);

    /// Serves one store; a store that fails is logged and left alone for a while.
    /// Returns: how many of its messages were handled, up to `batch`.
    std::size_t run_once(std::size_t batch, const stop_request& stop);

    /// How many stores there are.
    [[nodiscard]] std::size_t size();

private:
    struct breaker {
        int failures = 0;
        monotonic_time closed_until{};
    };

    /// What was seen of a store when it was served last.
    struct last_look {
        monotonic_time at{};
        duration left{}; ///< how long messages that were left then had waited, at most
    };

    void refresh();
    void accept(std::vector<named_store> listed);
    std::size_t serve(const named_store& which, std::size_t batch, const stop_request& stop);
    void note_failure(const std::string& name, const std::exception& why);
    [[nodiscard]] std::vector<store_view> views(monotonic_time now) const;

    parts with_;
    bool listed_ = false;
    monotonic_time refresh_at_{};
    std::vector<named_store> stores_;
    std::map<std::string, std::uint64_t, std::less<>> positions_;
    std::uint64_t next_position_ = 0;
    std::map<std::string, breaker, std::less<>> breakers_;
    std::map<std::string, last_look, std::less<>> looks_;
    std::optional<std::string> last_;
    std::size_t last_count_ = 0;
};

} // namespace posthorn::runtime
