// The enqueue's statement with and without its look for sleepers, from eight connections at once;
// and how long after a commit a sleeping worker has the message, next to NOTIFY written by hand.
#include "bench/postgres_bell_bench.hpp"

#include "bench/workload.hpp"
#include "store/contract/backend.hpp"
#include "store/postgres/connection.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/worker.hpp>

#include <fmt/format.h>
#include <libpq-fe.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <poll.h>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

namespace bench {
namespace {

namespace ph = posthorn;
namespace sql = posthorn::postgres::sql;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;

constexpr std::size_t producers = 8;
constexpr std::size_t bell_turns = 20; // the speed of a disk drifts
constexpr auto pace = 10ms;            // a hundred a second

// The statement as it would be if nobody could be woken.
class silent_statement {
public:
    silent_statement()
    {
        const auto ring = text_.rfind(", CASE WHEN");
        if (ring == std::string::npos || text_.find("ring_for", ring) == std::string::npos)
            throw std::logic_error("the enqueue does not look for sleepers");
        text_.erase(ring);
    }

    [[nodiscard]] ph::contract::named_statement get() const
    {
        return {.index = 1'000,
                .name = "insert_silently",
                .text = text_,
                .parameters = sql::insert_one_plain::text.parameters - 1};
    }

private:
    std::string text_{sql::insert_one_plain::text.text};
};

ph::postgres::arguments one_message()
{
    using statement = sql::insert_one_plain;
    ph::postgres::arguments with;
    with.set_text(statement::id_start, "018f000000007000800000")
        .set_text(statement::topic, topic)
        .set_text(statement::correlation_id, "")
        .set_text(statement::causation_id, "")
        .set_text(statement::headers, "")
        .set_text(statement::payload, payload)
        .set_flag(statement::ring, true);
    return with;
}

void cost_round(const std::string& place, const server_plan& plan, figures& into)
{
    ph::migrate(place);
    const silent_statement without;
    const auto silently = without.get();
    const auto where = ph::postgres::location::parse(place);
    std::vector<std::unique_ptr<ph::postgres::connection>> connections;
    for (std::size_t i = 0; i < producers; ++i)
        connections.push_back(std::make_unique<ph::postgres::connection>(where));
    const auto with = one_message();
    const auto enqueue = [&](const ph::contract::named_statement& which, std::size_t each) {
        std::vector<std::jthread> threads;
        for (const auto& db : connections)
            threads.emplace_back([&] {
                for (std::size_t i = 0; i < each; ++i)
                    db->run(which, with);
            });
    };
    enqueue(silently, 1); // both have their statements prepared
    enqueue(sql::insert_one_plain::text, 1);
    const auto each = std::max<std::size_t>(plan.single_messages / bell_turns / 2, 1);
    double seconds_silent = 0;
    double seconds_ringing = 0;
    for (std::size_t turn = 0; turn < bell_turns; ++turn) {
        seconds_silent += 1 / rate(1, [&] { enqueue(silently, each); });
        seconds_ringing += 1 / rate(1, [&] { enqueue(sql::insert_one_plain::text, each); });
    }
    const auto count = static_cast<double>(each * producers * bell_turns);
    into.add("without a bell", "postgres enqueue 1/tx 8c", count / seconds_silent);
    into.add("posthorn", "postgres enqueue 1/tx 8c", count / seconds_ringing);
}

/// Times of commits and receipts, by the number of the message.
class timetable {
public:
    explicit timetable(std::size_t count) : committed_(count), received_(count) {}

    /// Sends at an even pace, each only after the one before has been received.
    void produce(const std::function<void(std::size_t)>& enqueue)
    {
        auto next = clock::now();
        for (std::size_t i = 0; i < committed_.size(); ++i) {
            next = std::max(next + pace, clock::now());
            world_.clock->pause(std::chrono::duration_cast<ph::duration>(next - clock::now()));
            enqueue(i);
            committed_[i] = clock::now();
            received_count_.wait(i);
        }
    }

    void receive(std::size_t which)
    {
        received_.at(which) = clock::now();
        ++received_count_;
        received_count_.notify_all();
    }

    [[nodiscard]] bool is_full() const { return received_count_ == received_.size(); }

    /// Microseconds; a message that was there before its commit was answered took none. The first
    /// tenth does not count: statements are being prepared.
    [[nodiscard]] double percentile(double share) const
    {
        std::vector<double> all;
        for (auto i = committed_.size() / 10; i < committed_.size(); ++i)
            all.push_back(std::max(
                0.0,
                std::chrono::duration<double, std::micro>(received_[i] - committed_[i]).count()));
        std::ranges::sort(all);
        return all[static_cast<std::size_t>(share * static_cast<double>(all.size() - 1))];
    }

    void tell(const std::string& peer, figures& into) const
    {
        into.add(peer, "postgres latency p50", percentile(0.5), "us");
        into.add(peer, "postgres latency p99", percentile(0.99), "us");
    }

private:
    ph::environment world_ = ph::environment::system();
    std::vector<clock::time_point> committed_;
    std::vector<clock::time_point> received_;
    std::atomic<std::size_t> received_count_ = 0;
};

// From the commit to the start of a handler, through a worker as users run it.
void posthorn_latency(const std::string& place, std::size_t samples, figures& into)
{
    ph::migrate(place);
    auto store = ph::open(place);
    timetable times(samples);
    ph::worker worker(ph::open(place), {.name = "bench"});
    worker.handle(
        topic, [&](const ph::delivery_view& each) { times.receive(std::stoul(each.payload())); });
    std::stop_source over;
    std::jthread running([&] { worker.run(over.get_token()); });
    times.produce([&](std::size_t i) { ph::enqueue(store, {topic, std::to_string(i)}); });
    over.request_stop();
    running.join();
    times.tell("posthorn", into);
}

using result = std::unique_ptr<PGresult, void (*)(PGresult*)>;

class by_hand {
public:
    explicit by_hand(const std::string& url) : db_(PQconnectdb(url.c_str()), &PQfinish) {}

    void run(const char* text) { check(PQexec(db_.get(), text)); }

    result run(const char* text, const std::string& value)
    {
        const char* const values[] = {value.c_str()};
        return check(PQexecParams(db_.get(), text, 1, nullptr, values, nullptr, nullptr, 0));
    }

    void wait_for_notification()
    {
        pollfd socket{.fd = PQsocket(db_.get()), .events = POLLIN, .revents = 0};
        (void)poll(&socket, 1, 1'000);
        PQconsumeInput(db_.get());
        while (auto* const each = PQnotifies(db_.get()))
            PQfreemem(each);
    }

private:
    result check(PGresult* raw)
    {
        result owned(raw, &PQclear);
        const auto status = PQresultStatus(raw);
        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            throw std::runtime_error(PQerrorMessage(db_.get()));
        return owned;
    }

    std::unique_ptr<PGconn, void (*)(PGconn*)> db_;
};

/// A table whose rows are told of by NOTIFY, and what its reader does with new ones.
struct reader_by_hand {
    std::string peer;
    const char* take; ///< answers with id and payload; its argument is the last id
    const char* done; ///< what follows; its argument is the id
};

// Sees that a row is there, and knows by its number what it has seen: gone with its process.
const reader_by_hand who_only_reads{
    .peer = "raw",
    .take = "SELECT id, payload FROM bell_by_hand WHERE id > $1::bigint ORDER BY id",
    .done = nullptr};

// Notes durably that it has begun, as whoever wants to know after a crash must.
const reader_by_hand who_claims{
    .peer = "hand-written",
    .take = "UPDATE bell_by_hand SET status = 'busy', attempts = attempts + 1 WHERE id IN "
            "(SELECT id FROM bell_by_hand WHERE status = 'pending' AND id > $1::bigint "
            "ORDER BY id LIMIT 10 FOR UPDATE SKIP LOCKED) RETURNING id, payload",
    .done = "UPDATE bell_by_hand SET status = 'done' WHERE id = $1::bigint"};

void latency_by_hand(const std::string& url, const reader_by_hand& how, std::size_t samples,
                     figures& into)
{
    by_hand producer(url);
    producer.run("SET client_min_messages = warning; DROP TABLE IF EXISTS bell_by_hand; "
                 "CREATE TABLE bell_by_hand (id bigserial PRIMARY KEY, topic text, payload text, "
                 "status text NOT NULL DEFAULT 'pending', attempts integer NOT NULL DEFAULT 0)");
    timetable times(samples);
    std::jthread reader([&] {
        by_hand db(url);
        db.run("LISTEN bell_by_hand");
        std::string last = "0";
        while (!times.is_full()) {
            const auto found = db.run(how.take, last);
            for (int row = 0; row < PQntuples(found.get()); ++row) {
                times.receive(std::stoul(PQgetvalue(found.get(), row, 1)));
                last = PQgetvalue(found.get(), row, 0);
                if (how.done != nullptr)
                    db.run(how.done, last);
            }
            if (PQntuples(found.get()) == 0)
                db.wait_for_notification();
        }
    });
    times.produce([&](std::size_t i) {
        producer.run("WITH added AS (INSERT INTO bell_by_hand (topic, payload) "
                     "VALUES ('order.placed', $1) RETURNING id) "
                     "SELECT id, pg_notify('bell_by_hand', '') FROM added",
                     std::to_string(i));
    });
    reader.join();
    producer.run("DROP TABLE bell_by_hand");
    times.tell(how.peer, into);
}

} // namespace

void run_postgres_bell(const std::string& url, const std::function<std::string()>& fresh_url,
                       const server_plan& plan, figures& into)
{
    const auto samples = std::max<std::size_t>(plan.single_messages / 3, 10);
    for (std::size_t round = 1; round <= plan.rounds; ++round) {
        fmt::print(stderr, "postgres bell: round {} of {}\n", round, plan.rounds);
        cost_round(fresh_url(), plan, into);
        latency_by_hand(url, who_only_reads, samples, into);
        latency_by_hand(url, who_claims, samples, into);
        posthorn_latency(fresh_url(), samples, into);
    }
    into.expect("postgres enqueue 1/tx 8c", "posthorn", 0.9, "postgres enqueue 1/tx 8c",
                "without a bell");
    into.expect_within(2, "postgres latency p50", "posthorn", "raw");
    into.expect_within(4, "postgres latency p99", "posthorn", "raw");
}

} // namespace bench
