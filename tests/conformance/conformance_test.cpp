// The common ground of the suite, and the ledger of skips at work.
#include "conformance/conformance_test.hpp"

#include "conformance/skips.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <set>
#include <stdexcept>

namespace posthorn::conformance {
namespace {

// Different bytes each time, so that ids differ; but numbers so small that no wait is shortened.
class tiny_chances final : public random_source {
public:
    void fill(std::span<std::uint8_t> bytes) override
    {
        std::ranges::fill(bytes, std::uint8_t{0});
        const auto drawn = ++count_ << 8U;
        std::memcpy(bytes.data(), &drawn, std::min(bytes.size(), sizeof drawn));
    }

private:
    std::atomic<std::uint64_t> count_{0};
};

std::string up_to_slash(std::string text)
{
    return text.substr(0, text.find('/'));
}

std::string after_slash(const std::string& text)
{
    const auto slash = text.find('/');
    return slash == std::string::npos ? text : text.substr(slash + 1);
}

bool matches(std::string_view entry, std::string_view suite, std::string_view test)
{
    const auto dot = entry.find('.');
    return entry.substr(0, dot) == suite &&
           (entry.substr(dot + 1) == "*" || entry.substr(dot + 1) == test);
}

} // namespace

struct conformance_test::log_lines {
    std::mutex mutex;
    std::vector<std::string> lines;
};

std::size_t conformance_test::logged(std::string_view part) const
{
    const std::lock_guard lock(log_->mutex);
    return static_cast<std::size_t>(std::ranges::count_if(
        log_->lines, [&](const std::string& line) { return line.find(part) != line.npos; }));
}

void conformance_test::SetUp()
{
    const auto& running = *::testing::UnitTest::GetInstance()->current_test_info();
    const auto suite = after_slash(running.test_suite_name());
    const auto test = up_to_slash(running.name());
    for (const auto& entry : skips)
        if (entry.store == GetParam().name && matches(entry.test, suite, test))
            GTEST_SKIP() << entry.reason;

    log_ = std::make_shared<log_lines>();
    clock_ = std::make_shared<posthorn::testing::manual_clock>();
    world_ = {.clock = clock_,
              .random = std::make_shared<tiny_chances>(),
              .log = [log = log_](log_level, std::string_view line) {
                  const std::lock_guard lock(log->mutex);
                  log->lines.emplace_back(line);
              }};
    under_test_ = GetParam().make();
    store_ = under_test_->open({.environment = world_});
    box_.emplace(*store_);
}

message_id conformance_test::add(const std::string& topic, const enqueue_options& how)
{
    return enqueue(db(), {.topic = topic, .payload = "payload"}, how).id;
}

message_id conformance_test::add_keyed(const std::string& key, enqueue_options how)
{
    how.ordering_key = key;
    return add("orders", how);
}

std::vector<message_id> conformance_test::add_many(std::size_t count, const std::string& topic)
{
    const std::vector<outgoing> all(count, {.message = {.topic = topic, .payload = "payload"}});
    std::vector<message_id> result;
    for (const auto& each : enqueue(db(), all))
        result.push_back(each.id);
    return result;
}

batch conformance_test::claim(std::size_t limit, std::optional<std::size_t> start)
{
    return box().claim(alice, {.limit = limit, .start = start});
}

receipt conformance_test::claim_one(const owner& who)
{
    const auto claimed = box().claim(who);
    if (claimed.size() != 1)
        throw std::runtime_error("one message should be due, not " +
                                 std::to_string(claimed.size()));
    return claimed.deliveries.front().receipt;
}

std::vector<message_id> conformance_test::claimed_ids(std::size_t limit)
{
    return ids_of(claim(limit));
}

std::vector<message_id> conformance_test::work_off(std::size_t limit)
{
    const auto claimed = claim(limit);
    box().acknowledge(alice, claimed.receipts());
    return ids_of(claimed);
}

message_id conformance_test::add_dead(const std::string& reason, const std::string& topic,
                                      const enqueue_options& how)
{
    const auto id = add(topic, how);
    const auto receipt = claim_one();
    if (receipt.id != id || fail(receipt, reason) != settled_as::dead)
        throw std::runtime_error("another message was due before the one that should die");
    return id;
}

message_record conformance_test::look(message_id id)
{
    auto found = find_message(db(), id);
    if (!found)
        throw std::runtime_error("no message " + to_string(id));
    return *found;
}

std::vector<message_state> conformance_test::states_of(const std::vector<message_id>& ids)
{
    std::vector<message_state> result;
    for (const auto id : ids)
        result.push_back(state_of(id));
    return result;
}

std::size_t conformance_test::total()
{
    return list_messages(db(), {.limit = 100'000}).size();
}

settled_as conformance_test::acknowledge(const owner& who, const receipt& what)
{
    return box().acknowledge(who, {&what, 1}).answers.at(0);
}

settled_as conformance_test::abandon(const receipt& what, std::optional<duration> delay,
                                     std::string_view error)
{
    return box().abandon(alice, {&what, 1}, delay, error).answers.at(0);
}

settled_as conformance_test::fail(const receipt& what, std::string_view reason)
{
    return box().fail(alice, {&what, 1}, reason).answers.at(0);
}

start_answer conformance_test::start(const owner& who, const receipt& what)
{
    return box().start(who, {&what, 1}).at(0);
}

error thrown_by(const std::function<void()>& action)
{
    try {
        action();
    } catch (const error& failure) {
        return failure;
    }
    ADD_FAILURE() << "nothing was thrown";
    return {error_code::internal, "nothing was thrown"};
}

std::vector<message_id> ids_of(const std::vector<message_record>& page)
{
    std::vector<message_id> result;
    for (const auto& each : page)
        result.push_back(each.id);
    return result;
}

std::vector<message_id> ids_of(const batch& claimed)
{
    std::vector<message_id> result;
    for (const auto& each : claimed.deliveries)
        result.push_back(each.receipt.id);
    return result;
}

outbox_options steady_retries(duration wait, int attempts_max, dead_key on_dead)
{
    return {.retries = {.fallback = exponential_retry{.first = wait,
                                                      .cap = wait,
                                                      .attempts_max = attempts_max,
                                                      .jitter = 0.0}},
            .on_dead = on_dead};
}

std::vector<std::string> entries_without_a_test(
    const std::function<bool(std::string_view suite)>& concerned)
{
    std::set<std::string> known;
    const auto& all = *::testing::UnitTest::GetInstance();
    for (int s = 0; s < all.total_test_suite_count(); ++s) {
        const auto& suite = *all.GetTestSuite(s);
        const auto name = after_slash(suite.name());
        for (int t = 0; t < suite.total_test_count(); ++t) {
            const std::string test = suite.GetTestInfo(t)->name();
            known.insert(name + "." + up_to_slash(test) + "/" + after_slash(test));
            known.insert(name + ".*/" + after_slash(test));
        }
    }
    std::set<std::string_view> stores;
    for (const auto& kind : store_kinds())
        stores.insert(kind.name);
    std::vector<std::string> orphans;
    for (const auto& entry : skips) {
        if (!stores.contains(entry.store))
            continue;
        const auto name = std::string(entry.test) + "/" + std::string(entry.store);
        if (concerned(entry.test.substr(0, entry.test.find('.'))) && !known.contains(name))
            orphans.push_back(name);
    }
    return orphans;
}

} // namespace posthorn::conformance
