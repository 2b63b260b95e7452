// The loop of a worker: claim what there is room for, hand it to its handlers, rest when there is
// nothing. Written once for anything that can be claimed.
//
// A message is claimed only when a handler can take it at once, and starts with its claim. So a
// worker that dies costs an attempt to no message but those that were running.
#pragma once

#include "runtime/engine.hpp"

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace posthorn::runtime {

class dispatcher {
public:
    explicit dispatcher(std::shared_ptr<engine> with);
    ~dispatcher();

    run_report run(const stop_request& stop, const run_options& how);

private:
    struct turn; ///< what one `run` keeps in mind

    void work(turn& now);
    enum class haul { none, some, full }; ///< how much a claim brought of what it asked for
    haul claim_and_dispatch(turn& now);
    std::size_t room_now(turn& now);
    std::size_t room_for_one(turn& now);
    std::vector<std::string> wanted_parked(std::size_t& limit) const;
    void dispatch(turn& now, std::vector<running_ptr> members);
    bool may_run(turn& now, const running_ptr& which, bool alone);
    bool is_suspect(const running_delivery& which) const;
    void rest(turn& now);
    contract::outlook look(turn& now);
    void endure(turn& now, const std::exception& why);
    void drain(const stop_request& stop);
    void warn_once(const std::string& topic);

    std::shared_ptr<engine> with_;
    std::unique_ptr<contract::bell> bell_;
    std::vector<pause_record> pauses_;
    std::set<std::string> parked_; ///< topics of which messages are known to be parked
    std::set<std::string> warned_;
};

} // namespace posthorn::runtime
