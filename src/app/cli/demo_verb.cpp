// The verb `demo`: a small shop that runs before one's eyes. Producers and handlers are real, and
// so is the store; only the bad luck is made up.
#include "app/cli/console.hpp"
#include "app/cli/record_view.hpp"
#include "app/cli/text.hpp"
#include "app/cli/verbs.hpp"
#include <posthorn/enqueue.hpp>
#include <posthorn/error.hpp>
#include <posthorn/worker.hpp>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unistd.h>
#include <vector>

namespace posthorn::cli {
namespace {

using namespace std::chrono_literals;

// What has happened to the messages of each topic. Threads: safe to use from any.
class scoreboard {
public:
    struct counts {
        std::size_t enqueued = 0;
        std::size_t done = 0;
        std::size_t retried = 0;
        std::size_t dead = 0;
    };

    void enqueued(const std::string& topic)
    {
        const std::lock_guard lock(mutex_);
        ++topics_[topic].enqueued;
    }

    void settled(const std::string& topic, settled_as answer)
    {
        const std::lock_guard lock(mutex_);
        auto& row = topics_[topic];
        row.done += answer == settled_as::done ? 1 : 0;
        row.retried += answer == settled_as::retrying ? 1 : 0;
        row.dead += answer == settled_as::dead ? 1 : 0;
    }

    [[nodiscard]] std::map<std::string, counts> rows() const
    {
        const std::lock_guard lock(mutex_);
        return topics_;
    }

    [[nodiscard]] counts total() const
    {
        counts sum;
        for (const auto& [topic, row] : rows())
            sum = {.enqueued = sum.enqueued + row.enqueued,
                   .done = sum.done + row.done,
                   .retried = sum.retried + row.retried,
                   .dead = sum.dead + row.dead};
        return sum;
    }

private:
    mutable std::mutex mutex_;
    std::map<std::string, counts> topics_;
};

// Sleeps for as long as nobody wants to end. False: somebody does.
bool rest(const std::stop_token& over, duration length)
{
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    return !wake.wait_for(lock, over, length, [&] { return over.stop_requested(); });
}

// The shop: what it sends and how it handles that.
struct shop {
    store where;
    console& screen;
    scoreboard score = {};

    double chance() const { return where.environment().random->fraction(); }

    void send(const std::string& topic, const std::string& payload, const enqueue_options& how = {})
    {
        enqueue(where, {.topic = topic, .payload = payload}, how);
        score.enqueued(topic);
    }

    // Three messages of one key: they are handled in this order, whatever fails on the way.
    void place_order(int number)
    {
        const auto payload = fmt::format(R"({{"order": {}}})", number);
        const auto key = fmt::format("order-{}", number);
        for (const auto* topic : {"order.placed", "order.paid", "order.shipped"})
            send(topic, payload, {.ordering_key = key});
        send("mail.confirmation", payload);
        screen.log(fmt::format("enqueued   order {} in three steps, and a mail", number));
    }

    void produce(const std::stop_token& over)
    {
        send("invoice.send", R"({"customer": "nobody"})");
        screen.log("enqueued   an invoice for a customer who does not exist");
        send("mail.reminder", "Dear Anna, …", {.delay = 3s});
        screen.log("enqueued   a reminder that is due in 3 seconds");
        for (int number = 1; number == 1 || rest(over, 600ms + 600ms * (number % 3)); ++number) {
            place_order(number);
            if (number % 5 == 0)
                send("mail.reminder", "Dear Anna, …", {.delay = 3s});
        }
    }

    outcome mail(const delivery_view& which) const
    {
        if (!rest(which.stop_token(), 60ms))
            return postpone(0s);
        if (which.topic() == "mail.confirmation" && which.attempt() < 3 && chance() < 0.4)
            return retry("the mail server is busy");
        return done();
    }

    void take(worker& into)
    {
        into.handle("order.*", [this](const delivery_view& which) {
            rest(which.stop_token(), 30ms);
            if (which.topic() == "order.paid" && which.attempt() == 1 && chance() < 0.2)
                throw std::runtime_error("the bank did not answer");
        });
        into.handle("mail.*", [this](const delivery_view& which) { return mail(which); });
        into.handle("invoice.send", [](const delivery_view&) {
            throw permanent_failure("there is no customer 'nobody'");
        });
    }

    lifecycle told()
    {
        const auto ended = [this](const delivery_view& which, const outcome& said, duration) {
            const auto& key = which.message().ordering_key;
            const auto name = fmt::format("{}{}", which.topic(), key.empty() ? "" : " of " + key);
            if (said.verdict == outcome::kind::done)
                screen.log(fmt::format("done       {}{}", name,
                                       which.attempt() > 1
                                           ? fmt::format(", at attempt {}", which.attempt())
                                           : std::string{}));
            else if (said.verdict == outcome::kind::retry)
                screen.log(fmt::format("try again  {}: {}", name, said.error));
            else if (said.verdict == outcome::kind::fail)
                screen.log(fmt::format("dead       {}: {}", name, said.error));
        };
        return {.ended = ended, .settled = [this](const delivery_view& which, settled_as answer) {
                    score.settled(which.topic(), answer);
                }};
    }
};

std::string status_of(shop& of, const worker& handling)
{
    const auto counts = count_messages(of.where);
    auto text = fmt::format("\n{:<20}{:>10}{:>8}{:>14}{:>6}\n", "TOPIC", "ENQUEUED", "DONE",
                            "TRIED AGAIN", "DEAD");
    for (const auto& [topic, row] : of.score.rows())
        text += fmt::format("{:<20}{:>10}{:>8}{:>14}{:>6}\n", topic, row.enqueued, row.done,
                            row.retried, row.dead);
    return text +
           fmt::format(
               "ready {}  delayed {}  retrying {}  waiting {}  claimed {}  running {}   Ctrl-C "
               "ends the demo",
               counts.ready, delayed_only(counts), counts.retrying, counts.waiting, counts.claimed,
               handling.status().running);
}

void watch(shop& of, const worker& handling, const demo_request& what, const std::stop_token& over)
{
    using clock = std::chrono::steady_clock;
    const auto end = what.seconds ? clock::now() + std::chrono::duration_cast<clock::duration>(
                                                       std::chrono::duration<double>(*what.seconds))
                                  : clock::time_point::max();
    while (clock::now() < end && rest(over, 200ms))
        if (of.screen.live())
            of.screen.show(status_of(of, handling));
}

// Threads that play until it is over; the failure of one ends it for all.
struct scene {
    std::stop_source over;
    std::mutex mutex;
    std::exception_ptr failure;
    std::vector<std::jthread> actors;

    scene() = default;
    scene(const scene&) = delete;
    scene& operator=(const scene&) = delete;
    ~scene() { over.request_stop(); }

    void play(std::function<void()> part)
    {
        actors.emplace_back([this, part = std::move(part)] {
            try {
                part();
            } catch (...) {
                const std::lock_guard lock(mutex);
                failure = std::current_exception();
                over.request_stop();
            }
        });
    }

    // Throws: what an actor threw.
    void end()
    {
        over.request_stop();
        actors.clear();
        if (failure)
            std::rethrow_exception(failure);
    }
};

std::string new_store()
{
    const char* folder = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    auto name = fmt::format("{}/posthorn-demo.XXXXXX", folder == nullptr ? "/tmp" : folder);
    if (::mkdtemp(name.data()) == nullptr)
        throw error(error_code::unavailable, fmt::format("cannot make the folder {}", name));
    return fmt::format("sqlite:{}/demo.db", name);
}

void sum_up(shop& of, const std::string& url, output& to)
{
    const auto total = of.score.total();
    if (to.json())
        return to.document({{"url", url},
                            {"enqueued", total.enqueued},
                            {"done", total.done},
                            {"retried", total.retried},
                            {"dead", total.dead}});
    to.line(fmt::format("{} enqueued, {} done, {} tried again, {} dead. What failed for good:\n",
                        total.enqueued, total.done, total.retried, total.dead));
    print_page(of.where, {.state = message_state::dead, .limit = 5}, list_view::dead, to);
    to.line(fmt::format("\nThe store stays where it is. Try next:\n"
                        "  {1} stats {0}\n"
                        "  {1} messages {0} --topic 'order.*'\n"
                        "  {1} dead redrive {0} --topic invoice.send\n"
                        "  {1} work {0} --on 'invoice.*' -- cat\n"
                        "  {1} tail {0} --all",
                        url, program_invocation_name)); // as it was called: it need not be in PATH
}

} // namespace

exit_status demo(const demo_request& what, output& to)
{
    const stop_on_signals signals;
    const auto url = what.url.empty() ? new_store() : what.url;
    posthorn::migrate(url);
    console screen(to);
    shop of{.where = open(url, {.environment = environment::system(std::nullopt)}),
            .screen = screen}; // which tells everything there is to tell
    screen.log(fmt::format("the store is {}", url));
    worker handling(of.where,
                    {.name = "demo",
                     .concurrency = 4,
                     .grace = 2s,
                     .outbox = {.retries = {.fallback = exponential_retry{.first = 500ms}}},
                     .on = of.told(),
                     .log_activity = false});
    of.take(handling);
    {
        scene both;
        const auto over = both.over.get_token();
        both.play([&] { of.produce(over); });
        both.play([&] { handling.run({over, signals.request().now}); });
        const std::stop_callback on_signal(signals.request().drain,
                                           [&] { both.over.request_stop(); });
        watch(of, handling, what, over);
        both.end();
    }
    screen.clear();
    sum_up(of, url, to);
    return exit_status::success;
}

} // namespace posthorn::cli
