// One call of publish: its messages, their keys, and what became of each.
//
// Messages without a key are all sent at once. Of each key one is on its way at a time, and the
// next follows as soon as it is accepted; so what is not accepted is never overtaken, whatever the
// client does with its requests.
#pragma once

#include "transport/kafka/producer.hpp"
#include <posthorn/transport.hpp>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace posthorn::kafka {

/// Gives the producer that works now, of each kind.
using producer_source = std::function<std::shared_ptr<producer>(producer::company)>;

class shipment {
public:
    shipment(const kafka_options& options, producer_source producers,
             std::span<const transport_message> what, const time_limit& how_long);

    [[nodiscard]] std::vector<publish_answer> run();

private:
    /// The messages of one key.
    struct chain {
        bool is_busy = false; ///< one of them is on its way, or was not accepted
        std::deque<std::size_t> waiting = {};
    };

    /// A message whose turn it is.
    struct turn {
        std::size_t index = 0;
        producer::company how = producer::company::many;
    };

    void begin(std::size_t index);
    void send_what_is_ready();
    [[nodiscard]] bool send(const turn& which); ///< false: there is no room now
    void settle(std::size_t index, publish_answer answer);
    void look_at(const delivery_report& report);
    void wait_for_reports();
    void give_up();
    [[nodiscard]] bool is_over();
    [[nodiscard]] publish_answer not_in_time();
    [[nodiscard]] std::string about(const transport_message& what, std::string_view why) const;
    [[nodiscard]] std::optional<publish_answer> objection(const transport_message& what) const;
    [[nodiscard]] const std::string& topic_of(const transport_message& what) const;

    const kafka_options& options_;
    producer_source producers_;
    std::span<const transport_message> what_;
    const time_limit& how_long_; // with an end

    recipient mailbox_;
    std::shared_ptr<producer> many_;  // shared with other calls
    std::shared_ptr<producer> alone_; // the same
    std::unordered_map<std::string_view, chain> chains_;
    std::vector<std::optional<publish_answer>> answers_;
    std::vector<bool> is_alone_; ///< by message: sent alone the last time
    std::vector<bool> is_out_;   ///< by message: its report has not come
    std::deque<turn> ready_;
    bool is_full_ = false;    ///< the producer's queue
    std::size_t hurried_ = 0; ///< of those sent
    std::size_t reported_ = 0;
    bool over_ = false;
};

} // namespace posthorn::kafka
