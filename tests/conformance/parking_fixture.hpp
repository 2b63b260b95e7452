// What the tests of parking share: putting messages aside, and asking for them again.
#pragma once

#include "conformance/conformance_test.hpp"

#include <utility>

namespace posthorn::conformance {

class parking_test : public conformance_test {
protected:
    settled_as put_aside(const receipt& what, park_reason why = park_reason::no_handler)
    {
        const settlement one{what, park(why)};
        return box().settle(alice, {&one, 1}).answers.at(0);
    }

    /// Claims everything that is due and parks it.
    void park_all(park_reason why = park_reason::no_handler)
    {
        for (const auto& each : claim().receipts())
            ASSERT_EQ(put_aside(each, why), settled_as::parked);
    }

    message_id add_parked(const std::string& topic = "orders", const enqueue_options& how = {},
                          park_reason why = park_reason::no_handler)
    {
        const auto id = add(topic, how);
        park_all(why);
        return id;
    }

    batch claim_with(std::vector<std::string> topics, std::size_t limit = 100,
                     std::optional<std::size_t> start = {})
    {
        return box().claim(alice, {.limit = limit, .start = start, .unpark = std::move(topics)});
    }

    std::vector<message_id> parked_ids(message_filter filter = {})
    {
        filter.state = message_state::parked;
        return ids_of(list_messages(db(), filter));
    }
};

} // namespace posthorn::conformance
