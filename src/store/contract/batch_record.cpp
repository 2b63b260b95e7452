// Packing a batch: variable-length numbers, differences instead of values.
#include "store/contract/batch_record.hpp"

#include <posthorn/error.hpp>

#include <algorithm>
#include <utility>

namespace posthorn::contract {
namespace {

// Seven bits a byte, the lowest first; the high bit says that more follow.
void put(std::string& blob, std::uint64_t value)
{
    while (value >= 0x80) {
        blob.push_back(static_cast<char>(value | 0x80U));
        value >>= 7U;
    }
    blob.push_back(static_cast<char>(value));
}

std::uint64_t take(std::string_view& blob)
{
    std::uint64_t value = 0;
    for (unsigned shift = 0; !blob.empty() && shift < 64; shift += 7) {
        const auto byte = static_cast<unsigned char>(blob.front());
        blob.remove_prefix(1);
        value |= static_cast<std::uint64_t>(byte & 0x7fU) << shift;
        if (byte < 0x80)
            return value;
    }
    throw error(error_code::corrupt, "a batch row is damaged: a number in it has no end");
}

// Small for small differences of either sign.
std::uint64_t zigzag(std::int64_t value)
{
    return (static_cast<std::uint64_t>(value) << 1U) ^ static_cast<std::uint64_t>(value >> 63U);
}

std::int64_t unzigzag(std::uint64_t value)
{
    return static_cast<std::int64_t>(value >> 1U) ^ -static_cast<std::int64_t>(value & 1U);
}

constexpr char everything_started = 'A';
constexpr char some_started = 'S';

} // namespace

batch_record::batch_record(fence number, std::string owner, std::string worker,
                           timestamp claimed_at, timestamp lease_until, std::vector<member> members)
    : number_(number),
      owner_(std::move(owner)),
      worker_(std::move(worker)),
      claimed_at_(claimed_at),
      lease_until_(lease_until),
      members_(std::move(members)),
      settled_((members_.size() + 7) / 8, '\0'),
      open_(static_cast<std::int64_t>(members_.size()))
{}

batch_record::batch_record(packed_batch row)
    : batch_record(row.number, std::move(row.owner), std::move(row.worker), row.claimed_at,
                   row.lease_until, {})
{
    open_ = row.open;
    decode_members(row.members);
    settled_ = std::move(row.settled);
    decode_starts(row.starts);
    if (settled_.size() != (members_.size() + 7) / 8)
        throw error(error_code::corrupt,
                    "a batch row is damaged: members and settled bits disagree");
}

packed_batch batch_record::packed() const
{
    return {.number = number_,
            .owner = owner_,
            .worker = worker_,
            .claimed_at = claimed_at_,
            .lease_until = lease_until_,
            .open = open_,
            .members = encoded_members(),
            .settled = settled_,
            .starts = encoded_starts()};
}

bool batch_record::is_open(std::uint32_t ordinal) const noexcept
{
    return ordinal < members_.size() &&
           (static_cast<unsigned char>(settled_[ordinal / 8]) & (1U << (ordinal % 8))) == 0;
}

bool batch_record::is_open(std::uint32_t ordinal, std::int64_t seq) const noexcept
{
    return is_open(ordinal) && members_[ordinal].seq == seq;
}

std::optional<std::uint32_t> batch_record::ordinal_of(std::int64_t seq) const noexcept
{
    const auto found = std::ranges::find(members_, seq, &member::seq);
    const auto ordinal = static_cast<std::uint32_t>(found - members_.begin());
    return is_open(ordinal) ? std::optional{ordinal} : std::nullopt;
}

void batch_record::settle(std::uint32_t ordinal)
{
    auto& byte = settled_[ordinal / 8];
    byte = static_cast<char>(static_cast<unsigned char>(byte) | (1U << (ordinal % 8)));
    --open_;
}

void batch_record::start(std::uint32_t ordinal, timestamp when)
{
    if (all_started_)
        return;
    starts_.resize(members_.size());
    if (!starts_[ordinal])
        starts_[ordinal] = std::max(when - claimed_at_, duration::zero());
}

void batch_record::start_all()
{
    all_started_ = true;
}

bool batch_record::is_started(std::uint32_t ordinal) const noexcept
{
    return all_started_ || (ordinal < starts_.size() && starts_[ordinal].has_value());
}

std::optional<timestamp> batch_record::started_at(std::uint32_t ordinal) const noexcept
{
    if (!is_started(ordinal))
        return std::nullopt;
    return all_started_ ? claimed_at_ : claimed_at_ + *starts_[ordinal];
}

void batch_record::decode_members(std::string_view blob)
{
    std::int64_t seq = 0;
    while (!blob.empty()) {
        const auto value = take(blob);
        // Unsigned, because in a damaged row the sum may be beyond every number.
        seq = static_cast<std::int64_t>(static_cast<std::uint64_t>(seq) +
                                        static_cast<std::uint64_t>(unzigzag(value >> 1U)));
        if (seq <= 0)
            throw error(error_code::corrupt, "a batch row is damaged: a member has no number");
        members_.push_back({.seq = seq, .queued = (value & 1U) != 0});
    }
}

std::string batch_record::encoded_members() const
{
    std::string blob;
    blob.reserve(members_.size() * 2 + 8);
    std::int64_t before = 0;
    for (const auto& each : members_) {
        put(blob, zigzag(each.seq - before) << 1U | (each.queued ? 1U : 0U));
        before = each.seq;
    }
    return blob;
}

void batch_record::decode_starts(std::string_view blob)
{
    all_started_ = !blob.empty() && blob.front() == everything_started;
    if (all_started_ || blob.empty())
        return;
    blob.remove_prefix(1);
    starts_.resize(members_.size());
    while (!blob.empty()) {
        const auto ordinal = take(blob);
        const auto offset = duration{static_cast<duration::rep>(take(blob))};
        if (ordinal >= starts_.size())
            throw error(error_code::corrupt, "a batch row is damaged: a start of no member");
        starts_[ordinal] = offset;
    }
}

std::string batch_record::encoded_starts() const
{
    if (all_started_)
        return {everything_started};
    if (starts_.empty())
        return {};
    std::string blob{some_started};
    for (std::size_t ordinal = 0; ordinal < starts_.size(); ++ordinal) {
        // What is settled needs no start any more; its time is in its own row by now.
        if (!starts_[ordinal] || !is_open(static_cast<std::uint32_t>(ordinal)))
            continue;
        put(blob, ordinal);
        put(blob, static_cast<std::uint64_t>(starts_[ordinal]->count()));
    }
    return blob;
}

} // namespace posthorn::contract
