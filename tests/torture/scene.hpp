// Where processes are tortured: a fresh store, workers and producers in processes of their own, and
// the judge over what they told.
#pragma once

#include "checker/history.hpp"
#include "checker/report.hpp"
#include "checker/scratch_folder.hpp"
#include "conformance/store_under_test.hpp"
#include "hang_limit.hpp"
#include "torture/process.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::torture {

/// Whether it holds at last; asked again and again for so long.
bool wait_until(const std::function<bool()>& condition, duration at_most = test::hang_limit);

/// Threads: one at a time.
class scene {
public:
    /// A fresh store of that kind.
    explicit scene(const conformance::store_kind& kind);

    /// A store that is there already, with its tables; `effects` is a table that is not.
    scene(const std::string& url, const std::string& effects);

    scene(const scene&) = delete;
    scene& operator=(const scene&) = delete;
    ~scene();

    [[nodiscard]] store& db() { return *store_; }
    [[nodiscard]] const std::string& url() const { return url_; }
    [[nodiscard]] std::string file(std::string_view name) const
    {
        return folder_.file(name).string();
    }

    // -------------------------------------------------------------------------- processes

    /// Options as torture_process knows them. Returns: the worker's name.
    std::string start_worker(const std::vector<std::string>& options = {});
    std::string start_producer(unsigned seed);

    /// Somebody outside: `deliver` or `command`.
    std::string start_outsider(const std::string& role, const std::vector<std::string>& options);

    /// SIGKILL, told to the judge.
    void kill(const std::string& name);

    /// SIGSTOP and SIGCONT, told to the judge when it is over.
    void pause(const std::string& name);
    void resume(const std::string& name);
    void resume_all();

    /// SIGTERM. Fails the test unless it then ends in good order.
    void stop(const std::string& name, duration within = test::hang_limit);
    void stop_all();

    /// The process itself, for what else can happen to it.
    [[nodiscard]] process& of(const std::string& name) { return running_.at(name); }

    /// Waits for a process that ends by itself. A death is told to the judge. Returns: how.
    std::optional<int> see_end(const std::string& name, duration within);

    // --------------------------------------------------------------------------- messages

    /// Enqueues, and tells the judge.
    message_id add(const message& what, const enqueue_options& how = {});
    [[nodiscard]] message_record look(message_id id);
    [[nodiscard]] bool is_done(message_id id) { return look(id).state == message_state::done; }

    /// Whether nothing is left to do.
    [[nodiscard]] bool is_drained();

    /// Tells the judge of something that the driver itself did.
    void tell(checker::happening what, std::optional<timestamp> asked_at = {})
    {
        notes_->record(std::move(what), asked_at);
    }
    [[nodiscard]] timestamp now() const { return notes_->now(); }

    // -------------------------------------------------------------------------- judgement

    /// How many events of this kind a worker has told so far.
    template <typename Event>
    [[nodiscard]] std::size_t told_by(const std::string& name) const
    {
        std::size_t result = 0;
        for (const auto& each : told({file(name + ".jsonl")}).events)
            result += std::holds_alternative<Event>(each.what) ? 1U : 0U;
        return result;
    }
    [[nodiscard]] std::size_t starts_of(const std::string& name) const
    {
        return told_by<checker::start_event>(name);
    }

    /// The answers that a worker got, in their order.
    [[nodiscard]] std::vector<settled_as> answers_to(const std::string& name) const;

    [[nodiscard]] checker::judgement judged(const checker::bounds& allowed) const;

    /// The same with the effects, which all are of messages from this source.
    [[nodiscard]] checker::judgement judged(const checker::bounds& allowed,
                                            const std::string& source) const;

    /// How often handlers of the message have left their row.
    [[nodiscard]] std::int64_t effects_of(message_id id) { return effects_named(to_string(id)); }

    /// The same for what has no message of its own.
    [[nodiscard]] std::int64_t effects_named(const std::string& what);

    /// Messages whose effect is not there exactly once if they are done, and never if they are not;
    /// and rows of messages that do not exist.
    [[nodiscard]] std::vector<std::string> wrong_effects();

    /// What the processes have printed.
    [[nodiscard]] std::string log() const { return folder_.read("log"); }

private:
    std::string start(const std::string& role, const std::string& name,
                      const std::vector<std::string>& options);
    void expect_good_end(const std::string& name, duration within);
    [[nodiscard]] static checker::history told(const std::vector<std::filesystem::path>& files);
    [[nodiscard]] checker::history told_by_all() const;
    void create_effects();
    [[nodiscard]] std::string select_effects(const std::string& of) const;

    checker::scratch_folder folder_;
    std::unique_ptr<conformance::store_under_test> under_test_; ///< none: not ours to make
    std::string url_;
    std::string effects_;
    std::optional<store> store_;
    std::unique_ptr<checker::history_writer> notes_;
    std::map<std::string, process> running_;
    std::map<std::string, timestamp> paused_;
    int number_ = 0;
};

/// The stores that several processes can share.
[[nodiscard]] std::vector<conformance::store_kind> kinds_for_processes();

} // namespace posthorn::torture
