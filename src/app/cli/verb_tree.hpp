// Which verbs and options there are, and how their help reads. Options only fill the plain requests
// of verbs.hpp; the verbs themselves live beside this file.
#pragma once

#include "app/cli/job_requests.hpp"
#include "app/cli/options.hpp"
#include "app/cli/route_requests.hpp"
#include "app/cli/verbs.hpp"
#include "app/daemon/serve.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::cli {

/// One request per verb; the options write into them.
struct requests {
    store_request init;
    migrate_request migrate;
    store_request doctor;
    store_request stats;
    stores_request stores;
    clean_request clean;
    enqueue_request enqueue;
    list_request messages;
    message_request message;
    message_request cancel;
    message_request why;
    tail_request tail;
    trace_request trace;
    work_request work;
    serve_request serve;
    relay_request relay;
    feed_request feed;
    pause_request pause;
    pause_request resume;
    demo_request demo;
    joins_request joins_list;
    join_request joins_show;
    cancel_join_request joins_cancel;
    join_request joins_redrive;
    inbox_request inbox_list;
    inbound_request inbox_show;
    revive_request inbox_revive;
    command_keys_request keys_list;
    command_key_request keys_show;
    command_key_request keys_release;
    leases_request leases_list;
    release_request leases_release;
    requests_of_jobs jobs;
    list_request dead_list;
    message_request dead_show;
    redrive_request dead_redrive;
    purge_request dead_purge;
    keys_request dead_keys;
    key_request dead_retry_key;
    key_request dead_skip_key;
};

void add_selection_of_stores(CLI::App& verb, store_selection& which);

class verb_tree {
public:
    using call = std::function<exit_status(output&)>;

    verb_tree();
    verb_tree(const verb_tree&) = delete;
    verb_tree& operator=(const verb_tree&) = delete;
    ~verb_tree() = default;

    // Throws: what CLI11 throws, and for a misspelt verb a better worded error of the same kind.
    call parse(int argc, const char* const* argv);

    // Valid after `parse`, also when that has failed.
    [[nodiscard]] bool json() const { return json_; }
    [[nodiscard]] std::string help() const { return root_.help(); }
    [[nodiscard]] std::string name_so_far() const;

private:
    template <typename Request>
    CLI::App& verb(CLI::App& parent, const verb_text& text, Request& request,
                   exit_status (*run)(const Request&, output&))
    {
        auto& result = *parent.add_subcommand(text.name, text.summary);
        result.footer(footer_of(text));
        result.group(group_);
        if constexpr (requires { request.which.urls; })
            add_selection_of_stores(result, request.which);
        else if constexpr (requires { request.url; })
            result.add_option("URL", request.url, "the store, such as sqlite:orders.db")
                ->required(text.needs_url)
                ->type_name("");
        result.add_flag("--json", json_, "print JSON; docs/cli.md describes it");
        result.callback([this, run, &request] {
            chosen_ = [run, &request](output& to) { return run(request, to); };
        });
        return result;
    }

    void declare_store_verbs();
    void declare_enqueue();
    void declare_message_verbs();
    void declare_why_and_tail();
    void declare_trace();
    void declare_work();
    void declare_serve();
    void declare_relay();
    void declare_feed();
    void declare_pauses();
    void declare_demo();
    void declare_joins();
    void declare_inbox();
    void declare_command_keys();
    void declare_leases();
    void declare_jobs();
    void declare_add_job(CLI::App& jobs);
    void declare_job_times(CLI::App& jobs);
    void declare_timers();
    void declare_dead_verbs();
    void declare_key_verbs(CLI::App& dead);
    static void refuse_unknown_verb(const CLI::App& parent, std::string_view typed);

    requests asked_;
    CLI::App root_{"Posthorn: reliable messages out of the database you already have.", "posthorn"};
    std::string group_; // of the verbs being declared, in the help
    bool json_ = false;
    std::vector<std::string> patterns_; // of the first command of `work`
    call chosen_;
};

} // namespace posthorn::cli
