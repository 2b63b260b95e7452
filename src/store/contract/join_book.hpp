// Joins, written once for all engines: what opens, counts and ends them, within one transaction.
//
// Locks are taken in one order: messages first, then joins by their numbers. Whoever follows ends
// of messages keeps to it, so that nobody waits for each other.
#pragma once

#include "store/contract/inbox_table.hpp"
#include "store/contract/job_book.hpp"
#include "store/contract/join_table.hpp"
#include "store/contract/message_keeper.hpp"
#include "store/contract/message_writer.hpp"
#include "store/contract/remote_join_table.hpp"
#include "store/contract/settlement_follower.hpp"
#include <posthorn/environment.hpp>

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::contract {

/// What is said of a member elsewhere.
struct join_report {
    message_id member;
    member_state state = member_state::pending;
    std::string store = {};   ///< where it is
    std::int64_t version = 0; ///< later reports of one member have larger ones
    std::int64_t seq = 0;     ///< of the member, on its own side
};

struct counted_report {
    report_answer answer = report_answer::known;
    std::string refused = {}; ///< why it can never count; nothing has changed then
};

class join_book final : public settlement_follower {
public:
    join_book(join_table& table, join_reader& reader, remote_join_table& remote, inbox_table& inbox,
              job_book& jobs, message_writer& writer, const posthorn::environment& world)
        : table_(table),
          reader_(reader),
          remote_(remote),
          inbox_(inbox),
          jobs_(jobs),
          writer_(writer),
          world_(world)
    {}

    void ended(std::span<const ended_message> which) override;
    void came_back(std::span<const std::int64_t> positions) override;
    void begin_gathering() override;
    void follow_gathered() override;
    void forget_gathered() noexcept override;

    /// The join belongs to what is ambient here; else to itself.
    join_id open(const join_options& how);

    /// What a join belongs to; empty if there is no such join. The text lives as long as this.
    [[nodiscard]] std::string_view correlation_of(join_id which);

    std::vector<attach_answer> attach(join_id to, std::span<const message_id> which);

    /// For messages that this transaction has added.
    void attach_new(join_id to, std::span<const locator> which);

    /// The end of a message here is reported to a join elsewhere.
    attach_answer attach(const remote_join& to, message_id which);

    /// Counts what was reported from elsewhere.
    counted_report count_report(join_id of, const join_report& what);

    bool seal(join_id which, std::optional<std::int64_t> expected);
    report_answer report(join_id of, message_id member, member_state as);
    bool cancel(join_id which, bool members);
    std::size_t redrive(join_id which, message_keeper& keeper);

    /// For a wait that does not accept failed members: a completed join becomes a failed one.
    /// False: it has not completed.
    bool fail_completed(join_id which);

    /// Adds a message that waits for the join; it does not wait if the join has ended.
    enqueued wait(join_id on, const new_message& what);

    [[nodiscard]] join_reader& reader() noexcept { return reader_; }
    [[nodiscard]] join_table& table() noexcept { return table_; }
    [[nodiscard]] remote_join_table& remote() noexcept { return remote_; }

    /// Whether anything was enqueued or released here, which somebody may want to know of.
    [[nodiscard]] bool has_enqueued() const noexcept { return has_enqueued_; }

private:
    using by_number = std::map<std::int64_t, join_record>;

    void count(std::span<const ended_message> which);
    void tell_inbox(std::span<const join_row> rows, std::span<const ended_message> which);
    void report_ends(std::span<const join_row> rows, std::span<const ended_message> which);
    void report_comebacks(std::span<const join_row> rows);
    void enqueue_reports(std::span<const join_report> reports,
                         std::span<const report_address> addresses);
    report_answer settle_remote(join_record join, remote_row row, member_state as);
    [[nodiscard]] std::vector<remote_row> redrivable_remotes(const join_record& join);
    [[nodiscard]] join_record locked(join_id which);
    [[nodiscard]] member_state stands_after_redrive(message_id member, message_keeper& keeper);
    void require_room(const join_record& in, std::size_t more) const;

    /// Saves what changed; joins whose counts say so end. `cause` is of the one that did it.
    void conclude(by_number& joins, const std::map<std::int64_t, message_id>& causes);
    void continue_after(const std::vector<join_record>& ended,
                        const std::map<std::int64_t, message_id>& causes);

    join_table& table_;
    join_reader& reader_;
    remote_join_table& remote_;
    inbox_table& inbox_;
    job_book& jobs_;
    message_writer& writer_;
    const posthorn::environment& world_;
    std::map<join_id, std::string> correlations_; ///< of joins that this transaction has met
    bool gathering_ = false;
    bool has_enqueued_ = false;
    std::vector<ended_message> gathered_;
    std::vector<std::int64_t> gathered_back_;
};

} // namespace posthorn::contract
