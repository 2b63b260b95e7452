// Looking at messages on PostgreSQL.
#pragma once

#include "store/contract/message_reader.hpp"
#include "store/postgres/conversation.hpp"
#include "store/postgres/frontier.hpp"

namespace posthorn::postgres {

class reader final : public contract::message_reader {
public:
    reader(conversation& talk, const environment& world, const frontier& front)
        : talk_(talk), world_(world), front_(front)
    {}

    std::optional<message_record> find(message_id id) override;
    std::vector<message_record> list(const message_filter& filter) override;
    store_stats count() override;
    std::vector<blocked_key> blocked_keys(std::size_t limit) override;
    std::optional<message_id> blocker_of(std::string_view ordering_key) override;
    contract::outlook outlook() override;
    std::vector<pause_record> pauses() override;

private:
    std::vector<std::int64_t> matching_seqs(const message_filter& filter);
    std::vector<message_record> records(std::span<const std::int64_t> seqs, bool with_payload);
    void count_finished(store_stats& into);

    conversation& talk_;
    const environment& world_;
    const frontier& front_;
};

/// The statement `outlook` for those who run it by themselves: its arguments, and its answer.
[[nodiscard]] arguments outlook_arguments(const frontier& front, const environment& world);
[[nodiscard]] contract::outlook outlook_from(const rows& found);

} // namespace posthorn::postgres
