// Somebody who wants a lease:
//
//   lease_contender URL LEASE LENGTH_MS TABLE HISTORY
//   lease_contender URL LEASE LENGTH_MS TABLE HISTORY GATE
//
// takes the lease over and over until SIGTERM, and writes rows into the table under its fence. With
// a gate it takes the lease once, without renewing it, waits until the file GATE is there, and then
// tries to write whatever it believes. The history is one line for each thing that it knows, with
// the time since the machine was started:
//
//   held FENCE MICROSECONDS   it was sure to hold it then
//   wrote FENCE MICROSECONDS
//   refused FENCE BELIEVED    its write was; whether it thought to hold it just before
#include "torture/effects.hpp"
#include <posthorn/error.hpp>
#include <posthorn/leases.hpp>
#include <posthorn/posthorn.hpp>
#include <posthorn/stop.hpp>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace {

using namespace posthorn;
using namespace std::chrono_literals;

class contender {
public:
    explicit contender(char** arguments)
        : url_(arguments[1]),
          name_(arguments[2]),
          length_(std::chrono::milliseconds{std::atoi(arguments[3])}),
          table_(arguments[4]),
          history_(std::fopen(arguments[5], "a")),
          db_(open(url_))
    {}

    void contend(const std::stop_token& stop)
    {
        while (!stop.stop_requested()) {
            try {
                auto got = acquire_lease(db_, name_, 500ms, how(true), stop);
                if (got)
                    use(*got, stop);
            } catch (const error& trouble) {
                if (!trouble.retryable())
                    throw;
                std::fprintf(stderr, "%d: %s\n", getpid(), trouble.what());
            }
        }
    }

    void wait_for_gate(const std::string& gate)
    {
        auto got = acquire_lease(db_, name_, 60s, how(false));
        if (!got)
            throw std::runtime_error("the lease is never free");
        note("held", *got, at());
        while (!std::filesystem::exists(gate))
            world_.clock->pause(5ms);
        write(*got);
    }

private:
    [[nodiscard]] lease_options how(bool renew) const
    {
        return {.length = length_, .renew = renew, .holder = std::to_string(getpid())};
    }

    [[nodiscard]] std::int64_t at() const
    {
        return world_.clock->since_boot().time_since_epoch().count();
    }

    void use(lease& got, const std::stop_token& stop)
    {
        const auto turns = 1 + world_.random->bits() % 20;
        for (std::uint64_t i = 0; i < turns && !stop.stop_requested(); ++i) {
            const auto before = at();
            if (!got.is_held())
                return;
            note("held", got, before);
            if (!write(got))
                return;
            world_.clock->pause(std::chrono::microseconds{world_.random->bits() % 20'000});
        }
        if (world_.random->bits() % 2 == 0)
            (void)got.release(); // and otherwise when it goes
    }

    bool write(const lease& got)
    {
        const bool believed = got.is_held();
        const auto number = std::to_string(static_cast<std::int64_t>(got.fence()));
        try {
            write_fenced(db_, got, [&](transaction& tx) {
                torture::execute_in(tx, url_,
                                    "INSERT INTO " + table_ + " (fence) VALUES (" + number + ")");
            });
            note("wrote", got, at());
            return true;
        } catch (const error& refusal) {
            if (refusal.code() != error_code::lease_lost)
                throw;
            note("refused", got, believed ? 1 : 0);
            return false;
        }
    }

    void note(const char* what, const lease& which, std::int64_t when)
    {
        std::fprintf(history_, "%s %" PRId64 " %" PRId64 "\n", what,
                     static_cast<std::int64_t>(which.fence()), when);
        std::fflush(history_);
    }

    environment world_ = environment::system();
    std::string url_;
    std::string name_;
    duration length_;
    std::string table_;
    std::FILE* history_; // for as long as the process
    store db_;
};

} // namespace

int main(int argc, char** argv)
{
    if (argc < 6)
        return 2;
    const stop_on_signals signals;
    try {
        contender who(argv);
        if (argc > 6)
            who.wait_for_gate(argv[6]);
        else
            who.contend(signals.request().drain);
        return 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "%d: %s\n", getpid(), failure.what());
        return 1;
    }
}
