// The verbs, as functions of plain requests: nothing here knows how a command line is written.
#pragma once

#include "app/cli/output.hpp"
#include "app/cli/state_words.hpp"
#include "app/cli/store_list.hpp"
#include "app/failure_settings.hpp"
#include <posthorn/idempotency.hpp>
#include <posthorn/inbox.hpp>
#include <posthorn/joins.hpp>
#include <posthorn/leases.hpp>
#include <posthorn/message.hpp>
#include <posthorn/messages.hpp>
#include <posthorn/retention.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace posthorn::cli {

enum class exit_status {
    success = 0,
    failure = 1, ///< the store failed, or did not hold what was asked for
    usage = 2,   ///< the request itself is wrong
};

/// What every verb needs to know.
struct store_request {
    std::string url;
};

struct migrate_request : store_request {
    bool print = false;
};

exit_status init(const store_request& what, output& to);
exit_status migrate(const migrate_request& what, output& to);
exit_status doctor(const store_request& what, output& to);
exit_status stats(const store_request& what, output& to);

struct clean_request : store_request {
    retention rules;
};

exit_status clean(const clean_request& what, output& to);

struct enqueue_request : store_request {
    std::string topic;
    std::optional<std::string> payload;
    bool payload_from_input = false;
    enqueue_options how;
    std::size_t count = 1;
};

exit_status enqueue(const enqueue_request& what, output& to);

struct list_request : store_request {
    message_filter filter;
    std::optional<wanted_state> state; ///< instead of the filter's
};

exit_status messages(const list_request& what, output& to);

struct message_request : store_request {
    message_id id;
    bool with_payload = false;
};

exit_status show_message(const message_request& what, output& to);
exit_status cancel(const message_request& what, output& to);
exit_status why(const message_request& what, output& to);

struct tail_request : store_request {
    std::string topic; ///< exact, or with a closing `*` everything that starts so
    std::optional<wanted_state> state;
    bool all = false;     ///< begin with what is there
    bool from_now = true; ///< unless `all`
    bool with_payload = false;
};

exit_status tail(const tail_request& what, output& to);

struct trace_request : store_request {
    std::string correlation;
    std::optional<duration> since; ///< how long ago to begin
    std::size_t limit = 1'000;
};

exit_status trace(const trace_request& what, output& to);

struct work_request {
    store_selection which;
    duration refresh = std::chrono::minutes{1}; ///< how often patterns and files are read again

    /// A command, and the topics whose messages it handles.
    struct route {
        std::vector<std::string> patterns;
        std::vector<std::string> command;
    };

    std::vector<route> routes;
    std::string name;
    std::size_t concurrency = 1;
    duration lease = std::chrono::seconds{30};
    duration grace = std::chrono::seconds{30};
    std::optional<duration> timeout;
    failure_settings failures = {};
    bool until_empty = false;
    std::size_t limit = SIZE_MAX;
    bool verbose = false;
};

exit_status work(const work_request& what, output& to);

struct stores_request {
    store_selection which;
};

exit_status show_stores(const stores_request& what, output& to);

struct pause_request : store_request {
    std::string topic; ///< empty: everything
};

exit_status pause(const pause_request& what, output& to);
exit_status resume(const pause_request& what, output& to);

struct demo_request : store_request {
    std::optional<double> seconds; ///< until somebody ends it
};

exit_status demo(const demo_request& what, output& to);

struct joins_request : store_request {
    join_filter filter;
};

struct join_request : store_request {
    join_id id;
    std::size_t members = 20; ///< of them are shown
};

struct cancel_join_request : store_request {
    join_id id;
    bool with_members = false;
};

exit_status list_of_joins(const joins_request& what, output& to);
exit_status show_join(const join_request& what, output& to);
exit_status cancel_one_join(const cancel_join_request& what, output& to);
exit_status redrive_one_join(const join_request& what, output& to);

struct inbox_request : store_request {
    inbox_filter filter;
};

struct inbound_request : store_request {
    inbound from;
};

struct revive_request : inbound_request {
    duration delay{};
};

exit_status list_of_inbox(const inbox_request& what, output& to);
exit_status show_inbound(const inbound_request& what, output& to);
exit_status revive_inbound(const revive_request& what, output& to);

struct command_keys_request : store_request {
    key_filter filter;
    std::vector<std::string> after; ///< a command and a key, or nothing
};

struct command_key_request : store_request {
    std::string command;
    std::string key;
    bool with_result = false;
};

exit_status list_command_keys(const command_keys_request& what, output& to);
exit_status show_command_key(const command_key_request& what, output& to);
exit_status release_command_key(const command_key_request& what, output& to);

struct leases_request : store_request {
    lease_filter filter;
};

struct release_request : store_request {
    std::string name;
    std::optional<std::int64_t> fence; ///< only from this holder
};

exit_status list_of_leases(const leases_request& what, output& to);
exit_status release_lease(const release_request& what, output& to);

/// Which dead messages an operator means: one of them, those that match, or really all.
struct dead_selection {
    std::optional<message_id> id;
    std::string topic;
    std::string error;
    bool all = false;
};

struct redrive_request : store_request {
    dead_selection which;
    bool dry_run = false;
    std::optional<double> per_second;
};

struct purge_request : store_request {
    dead_selection which;
    bool dry_run = false;
};

struct key_request : store_request {
    std::string ordering_key;
};

struct keys_request : store_request {
    std::size_t limit = 100;
};

exit_status list_dead(const list_request& what, output& to);
exit_status show_dead(const message_request& what, output& to);
exit_status redrive_dead(const redrive_request& what, output& to);
exit_status purge_dead(const purge_request& what, output& to);
exit_status list_keys(const keys_request& what, output& to);
exit_status retry_key(const key_request& what, output& to);
exit_status skip_key(const key_request& what, output& to);

} // namespace posthorn::cli
