// From an outbox through a broker into an inbox, to a handler: every part is killed in turn, with
// SIGKILL, and each message has its effect exactly once, in the order of its key. Both ends are
// judged by the checker: where messages leave by what the relays tell, and where they arrive by
// what the feeds and workers tell, and by what was sent.
//
// POSTHORN_TORTURE_JOURNEYS=n is for people with time: n rounds instead of two.
#include "torture/couriers.hpp"
#include "torture/outsiders.hpp"
#include "torture/scene.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nats/nats.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace posthorn::torture {
namespace {

using namespace std::chrono_literals;
using ::testing::IsEmpty;

const checker::bounds allowed{.attempts_max = 50, .settle_within = 60s, .clock_tolerance = 5ms};
const checker::bounds allowed_there{.attempts_max = 50,
                                    .settle_within = 60s,
                                    .clock_tolerance = 5ms,
                                    .may_wait = {inbox_topic("probe")}}; // nobody handles it
constexpr int messages_per_deed = 25;
constexpr std::size_t keys = 7;

int rounds_wanted()
{
    const char* told = std::getenv("POSTHORN_TORTURE_JOURNEYS");
    return told != nullptr ? std::atoi(told) : 2;
}

// A broker of one test's own, which keeps what it has confirmed when it is killed.
class own_broker {
public:
    explicit own_broker(std::string kind) : kind_(std::move(kind)) { start(); }
    own_broker(const own_broker&) = delete;
    own_broker& operator=(const own_broker&) = delete;
    ~own_broker() { (void)std::system(command("stop").c_str()); }

    void kill() { run("kill"); }
    void start() { run("start", kind_ == "redis" ? " --appendfsync always" : ""); }

    [[nodiscard]] std::string url() const
    {
        auto port = folder_.read(kind_ + ".port");
        port.erase(port.find_last_not_of('\n') + 1);
        if (kind_ == "rabbitmq")
            return "amqp://guest:guest@127.0.0.1:" + port + "/";
        return kind_ + "://127.0.0.1:" + port;
    }

private:
    [[nodiscard]] std::string command(const std::string& verb) const
    {
        return std::string("bash ") + SERVERS_SCRIPT + " " + kind_ + " " + verb + " " +
               folder_.file("").string();
    }

    void run(const std::string& verb, const std::string& options = "") const
    {
        if (std::system((command(verb) + options).c_str()) != 0)
            throw std::runtime_error("failed: " + command(verb) + options);
    }

    checker::scratch_folder folder_;
    std::string kind_;
};

void make_nats_stream(const place& where)
{
    const auto check = [](natsStatus status) {
        if (status != NATS_OK)
            throw std::runtime_error(natsStatus_GetText(status));
    };
    natsConnection* raw = nullptr;
    check(natsConnection_ConnectTo(&raw, where.broker.c_str()));
    const std::unique_ptr<natsConnection, void (*)(natsConnection*)> db(raw,
                                                                        &natsConnection_Destroy);
    jsCtx* raw_js = nullptr;
    check(natsConnection_JetStream(&raw_js, raw, nullptr));
    const std::unique_ptr<jsCtx, void (*)(jsCtx*)> js(raw_js, &jsCtx_Destroy);
    jsStreamConfig config;
    check(jsStreamConfig_Init(&config));
    const char* subjects[] = {where.name.c_str()};
    config.Name = where.name.c_str();
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    check(js_AddStream(nullptr, js.get(), &config, nullptr, nullptr));
}

struct journey {
    std::string broker;
    std::string from; ///< kinds of stores
    std::string to;
};

conformance::store_kind store_named(const std::string& name)
{
    for (const auto& each : kinds_for_processes())
        if (each.name == name)
            return each;
    throw std::invalid_argument(name);
}

class journeys : public ::testing::TestWithParam<journey> {
protected:
    journeys()
        : broker_(GetParam().broker),
          between_{.broker = broker_.url(), .name = "journeys"},
          here_(store_named(GetParam().from)),
          there_(store_named(GetParam().to))
    {}

    void SetUp() override
    {
        if (GetParam().broker == "nats")
            make_nats_stream(between_);
        make_place();
        relay_ = start_relay();
        feed_ = start_feed();
        worker_ = there_.start_worker();
    }

    /// Until a message would be taken there.
    void make_place()
    {
        const auto world = environment::system();
        const auto out = way_to(between_, world);
        const auto in = way_from(between_, world);
        const transport_message probe{
            .id = message_id(uuid::version_7(world.clock->now(), *world.random)),
            .topic = "probe",
            .destination = destination_of(between_)};
        tell_sent(probe.id, "", there_.now());
        ASSERT_TRUE(wait_until([&] {
            const auto soon = world.clock->monotonic() + 500ms;
            (void)in->receive(1, {.until = soon});
            return out->publish({&probe, 1}, {.until = soon + 2s}).front().accepted();
        }));
        in->close();
    }

    std::string start_relay() { return here_.start_outsider("relay", courier()); }
    std::string start_feed() { return there_.start_outsider("feed", courier()); }

    void send_some()
    {
        for (int i = 0; i < messages_per_deed; ++i) {
            const auto number = ids_.size();
            const auto key = number % 3 == 0 ? "" : "key " + std::to_string(number % keys);
            const auto asked_at = there_.now();
            ids_.push_back(here_.add({"effect", std::to_string(number)}, {.ordering_key = key}));
            tell_sent(ids_.back(), key, asked_at);
            sent_in_order_ += key.empty() ? 0U : 1U;
        }
    }

    /// So that the judge of the other end knows what has to come, and in which order.
    void tell_sent(message_id id, const std::string& key, timestamp asked_at)
    {
        there_.tell(checker::send_event{.from = {.source = outside_source, .id = to_string(id)},
                                        .key = key},
                    asked_at);
    }

    void kill_relay()
    {
        here_.kill(relay_);
        ++relay_kills_;
        relay_ = start_relay();
    }

    /// A relay that is killed may cost what it had in hand an attempt. Nothing else may: neither a
    /// broker that is away, nor an answer that never came.
    [[nodiscard]] std::vector<std::string> wrong_attempts()
    {
        std::vector<std::string> result;
        for (const auto id : ids_)
            if (const auto found = here_.look(id);
                found.state != message_state::done || found.attempts > 1 + relay_kills_)
                result.push_back(to_string(id) + " is " + std::string(to_string(found.state)) +
                                 " after " + std::to_string(found.attempts) + " attempts");
        return result;
    }

    [[nodiscard]] std::vector<std::string> wrong_effects()
    {
        std::vector<std::string> result;
        for (const auto id : ids_)
            if (const auto effects = there_.effects_of(id); effects != 1)
                result.push_back(to_string(id) + " has taken effect " + std::to_string(effects) +
                                 " times");
        return result;
    }

    /// Whether the judge found nothing, and looked at everything: what a rule has not seen it has
    /// not shown.
    void expect_clean_departures()
    {
        const auto judged = here_.judged(allowed);
        EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << logs();
        EXPECT_GE(judged.looked_at.starts, ids_.size());
        EXPECT_GE(checks_of(judged, "I8"), (sent_in_order_ - keys) / 2); // clocks hide the rest
    }

    void expect_clean_arrivals()
    {
        const auto judged = there_.judged(allowed_there, outside_source);
        EXPECT_THAT(judged.violations(), IsEmpty()) << to_text(judged) << logs();
        EXPECT_EQ(judged.looked_at.arrivals, ids_.size() + 1); // and the probe
        EXPECT_EQ(judged.looked_at.effects, ids_.size());
        EXPECT_GE(judged.looked_at.starts, ids_.size());
        EXPECT_GE(judged.looked_at.faults, static_cast<std::size_t>(2 * rounds_wanted()));
        for (const auto* promise : {"I1", "I2", "I3", "I4", "I5", "I6", "I7", "I17", "I20"})
            EXPECT_GE(checks_of(judged, promise), ids_.size()) << promise;
        // Each start but the first of a key by the order of sending, and most by that of storing.
        EXPECT_GE(checks_of(judged, "I8"), (sent_in_order_ - keys) * 3 / 2);
    }

    static std::size_t checks_of(const checker::judgement& judged, const std::string& promise)
    {
        return std::ranges::find(judged.verdicts, promise, &checker::verdict::promise)->checks();
    }

    /// Some of what is under way has arrived, so what comes next meets all parts at work.
    void let_some_arrive()
    {
        const auto before = arrived();
        EXPECT_TRUE(wait_until([&] { return arrived() > before; }, 60s)) << logs();
    }

    [[nodiscard]] std::size_t arrived()
    {
        return static_cast<std::size_t>(count_messages(there_.db()).done);
    }

    [[nodiscard]] std::string logs() const { return here_.log() + there_.log(); }

    own_broker broker_;
    place between_;
    scene here_;
    scene there_;
    std::string relay_;
    std::string feed_;
    std::string worker_;
    std::vector<message_id> ids_;

private:
    std::size_t sent_in_order_ = 0; ///< of those, with a key
    int relay_kills_ = 0;

    [[nodiscard]] std::vector<std::string> courier() const
    {
        return {"--broker", between_.broker, "--place", between_.name};
    }
};

} // namespace

// Proves: TRN-01, TRN-02, INB-05, INB-04, I1, I7, I8, F1, F5, F6
TEST_P(journeys, have_one_effect_each_whoever_is_killed)
{
    for (int round = 0; round < rounds_wanted(); ++round) {
        send_some();
        let_some_arrive();
        kill_relay();

        send_some();
        let_some_arrive();
        there_.kill(feed_);
        feed_ = start_feed();

        send_some();
        let_some_arrive();
        there_.kill(worker_);
        worker_ = there_.start_worker();

        send_some();
        let_some_arrive();
        broker_.kill();
        send_some();
        broker_.start();
    }
    const auto everything = ids_.size();
    EXPECT_TRUE(wait_until([&] { return here_.is_drained() && arrived() >= everything; }, 120s))
        << arrived() << " of " << everything << "\n"
        << logs();
    here_.tell(checker::stop_event{});
    there_.tell(checker::stop_event{});
    here_.stop_all();
    there_.stop_all();

    EXPECT_THAT(wrong_effects(), IsEmpty()) << logs();
    EXPECT_THAT(wrong_attempts(), IsEmpty()) << logs();
    expect_clean_departures();
    expect_clean_arrivals();
}

INSTANTIATE_TEST_SUITE_P(brokers, journeys,
                         ::testing::Values(journey{"rabbitmq", "postgres", "mariadb"},
                                           journey{"nats", "sqlite_file", "postgres"},
                                           journey{"redis", "mariadb", "sqlite_file"}),
                         [](const auto& each) { return each.param.broker; });

} // namespace posthorn::torture
