// Sending e-mail through an outbox: whoever is registered gets a welcome, whatever breaks
// meanwhile.
//
// usage: example_email_outbox [URL [FOLDER]]
//
// A user and the e-mail to send are saved in one transaction. A timer calls process_outbox, which
// sends what is due. When the mail server is down, an e-mail is tried again, later and later, and
// at last once a day, until it is sent. Time is a clock that is moved by hand, so that days pass in
// a moment; with the machine's clock nothing else would change. On PostgreSQL and MariaDB the
// tables `example_users` and Posthorn's own are made in the database that URL names.
#include "mail_folder.hpp"
#include "users.hpp"
#include <posthorn/json.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/testing/manual_clock.hpp>
#include <posthorn/worker.hpp>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

namespace ph = posthorn;
using namespace std::chrono_literals;

// What is enqueued. The version is part of the topic: messages live longer than programs.
struct user_created_email_v1 {
    std::int64_t user_id = 0;
    std::string email;

    NLOHMANN_DEFINE_TYPE_INTRUSIVE(user_created_email_v1, user_id, email)
};

template <>
struct posthorn::message_type<user_created_email_v1> {
    static constexpr std::string_view topic = "user_created_email.v1";
};

namespace {

// The sending side: one handler, and when to try again.
class publisher {
public:
    publisher(const ph::store& store, const mail_folder& server) : worker_(store, options())
    {
        worker_.handle<user_created_email_v1>(
            [&server](const user_created_email_v1& what, const ph::delivery_view& which) {
                if (what.email.find('@') == std::string::npos)
                    throw ph::permanent_failure("'" + what.email + "' is no address");
                server.send(to_string(which.id()), what.email, "Your account is ready.");
            });
    }

    ph::run_report process(std::size_t limit) { return worker_.process_outbox(limit); }

private:
    static ph::worker_options options()
    {
        // Ten failures with a growing delay, then once a day for as long as it takes.
        const ph::persistent_retry policy{.first = 2s, .failures_max = 10, .then_every = 24h};
        return {.name = "publisher",
                .outbox = {.retries = {.by_topic = {{"user_created_email.v1", policy}}}}};
    }

    ph::worker worker_;
};

class shop {
public:
    shop(ph::store store, std::string_view url) : store_(std::move(store)), users_(users_of(url))
    {
        auto tx = store_.begin();
        users_->create(tx);
        tx.commit();
    }

    // The user and the message exist together, or neither does.
    void register_user(const user& who, bool crash = false)
    {
        auto tx = store_.begin();
        users_->insert(tx, who);
        ph::enqueue(tx, user_created_email_v1{who.id, who.email});
        if (crash)
            return; // without a commit, as if the process had died here
        tx.commit();
    }

    std::int64_t users()
    {
        auto tx = store_.begin();
        return users_->count(tx);
    }

private:
    ph::store store_;
    std::unique_ptr<user_table> users_;
};

class story {
public:
    story(std::string url, std::filesystem::path folder)
        : url_(std::move(url)),
          server_(std::move(folder)),
          store_(open(url_, clock_)),
          shop_(store_, url_),
          publisher_(store_, server_)
    {}

    void tell()
    {
        shop_.register_user({.id = 1, .email = "ada@example.org"});
        shop_.register_user({.id = 2, .email = "bob@example.org"}, true);
        say("registered ada; the program died while it registered bob");
        say(std::to_string(shop_.users()) + " user, " + std::to_string(waiting()) +
            " e-mail to send");
        tick_every(10s, 1);

        say("the mail server goes down; carl is registered, and dora with a bad address");
        server_.go_down();
        shop_.register_user({.id = 3, .email = "carl@example.org"});
        shop_.register_user({.id = 4, .email = "dora at example.org"});
        tick_every(10s, 240);
        tick_every(1h, 50);

        say("the mail server is back");
        server_.come_back();
        tick_every(1h, 25);
        say(std::to_string(server_.sent()) + " e-mails sent, " + std::to_string(waiting()) +
            " to send, " + std::to_string(ph::count_messages(store_).dead) + " dead letter");
    }

private:
    static ph::store open(const std::string& url, const std::shared_ptr<ph::clock>& clock)
    {
        ph::store_options options;
        options.environment.clock = clock;
        ph::migrate(url, options);
        return ph::open(url, options);
    }

    std::int64_t waiting()
    {
        const auto counts = ph::count_messages(store_);
        return counts.ready + counts.delayed;
    }

    // The timer of the host: a function in the cloud, cron, or a loop like this.
    void tick_every(ph::duration period, int times)
    {
        for (int i = 0; i < times; ++i) {
            const auto report = publisher_.process(1'000);
            if (report.handled() > 0)
                say("  process_outbox: " + std::to_string(report.done) + " sent, " +
                    std::to_string(report.retrying) + " to be tried again, " +
                    std::to_string(report.dead) + " given up");
            clock_->advance(period);
        }
    }

    // Time since the beginning of the story.
    void say(const std::string& what)
    {
        const auto passed = std::chrono::floor<std::chrono::seconds>(clock_->now() - start_);
        const std::chrono::hh_mm_ss time(passed % 24h);
        const auto two = [](auto count) {
            const auto text = std::to_string(count.count());
            return text.size() < 2 ? "0" + text : text;
        };
        std::cout << "day " << passed / 24h << " " << two(time.hours()) << ":"
                  << two(time.minutes()) << ":" << two(time.seconds()) << "  " << what << "\n";
    }

    std::shared_ptr<ph::testing::manual_clock> clock_ =
        std::make_shared<ph::testing::manual_clock>(); // shared with the store's environment
    ph::timestamp start_ = clock_->now();
    std::string url_;
    mail_folder server_;
    ph::store store_;
    shop shop_;
    publisher publisher_;
};

// Without arguments everything happens in a temporary folder.
struct scratch_folder {
    std::string path = (std::filesystem::temp_directory_path() / "email-XXXXXX").string();

    scratch_folder()
    {
        if (mkdtemp(path.data()) == nullptr)
            throw std::runtime_error("no temporary folder");
    }
    scratch_folder(const scratch_folder&) = delete;
    scratch_folder& operator=(const scratch_folder&) = delete;
    ~scratch_folder()
    {
        std::error_code ignored; // the story has been told
        std::filesystem::remove_all(path, ignored);
    }
};

} // namespace

int main(int argc, char** argv)
try {
    const scratch_folder scratch;
    const std::string url = argc > 1 ? argv[1] : "sqlite:" + scratch.path + "/shop.db";
    const std::string folder = argc > 2 ? argv[2] : scratch.path + "/mail";
    story(url, folder).tell();
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "example_email_outbox: " << failure.what() << "\n";
    return 1;
}
