// What the tests of joins stand on, whatever else their fixture can do.
#pragma once

#include "conformance/conformance_test.hpp"
#include <posthorn/joins.hpp>

#include <string>
#include <vector>

namespace posthorn::conformance {

inline const std::string complete_topic = "all.done";
inline const std::string fail_topic = "went.wrong";

template <typename Fixture>
class joining : public Fixture {
protected:
    /// Opens a join with continuations of both kinds.
    join_id open(join_options how)
    {
        how.on_complete = message{complete_topic, "well"};
        how.on_fail = message{fail_topic, "badly"};
        return open_join(this->db(), how);
    }

    join_id open(std::int64_t expected) { return open({.expected = expected}); }

    message_id add_to(join_id join, enqueue_options how = {})
    {
        how.join = join;
        return this->add("orders", how);
    }

    std::vector<message_id> add_many_to(join_id join, std::size_t count)
    {
        const outgoing each{.message = {.topic = "orders", .payload = "payload"},
                            .options = {.join = join}};
        const std::vector<outgoing> all(count, each);
        std::vector<message_id> result;
        for (const auto& added : enqueue(this->db(), all))
            result.push_back(added.id);
        return result;
    }

    join_record look_at(join_id join)
    {
        auto found = find_join(this->db(), join);
        if (!found)
            throw std::runtime_error("no join " + to_string(join));
        return *found;
    }

    join_state end_of(join_id join) { return look_at(join).state; }

    std::size_t enqueued_of(const std::string& topic)
    {
        return list_messages(this->db(), {.topic = topic, .limit = 1'000}).size();
    }

    /// Both kinds: never more than one for a join.
    std::size_t continuations() { return enqueued_of(complete_topic) + enqueued_of(fail_topic); }

    std::vector<member_state> member_states(join_id join)
    {
        std::vector<member_state> result;
        for (const auto& each : list_join_members(this->db(), join))
            result.push_back(each.state);
        return result;
    }
};

} // namespace posthorn::conformance
