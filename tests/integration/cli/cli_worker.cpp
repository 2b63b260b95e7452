// A worker for the tests of the command line that does one thing and leaves:
//
//   cli_worker URL hold|claim|acknowledge|fail|park [ERROR]
//
// claims what is due, starts it (unless it only holds it), and leaves, acknowledges, fails or parks
// it. Prints how many messages.
#include <posthorn/outbox.hpp>

#include <cstdio>
#include <exception>
#include <string_view>
#include <vector>

namespace {

using namespace posthorn;

void settle(outbox& queue, const owner& me, const batch& claimed, std::string_view deed,
            std::string_view error)
{
    if (deed == "acknowledge")
        queue.acknowledge(me, claimed.receipts());
    if (deed == "fail")
        queue.fail(me, claimed.receipts(), error);
    if (deed == "park")
        for (const auto& each : claimed.receipts())
            queue.settle(me, std::vector<settlement>{{each, park(park_reason::at_limit)}});
}

std::size_t work(const char* url, std::string_view deed, std::string_view error)
{
    auto where = open(url);
    const auto me = owner::create("cli-worker", *where.environment().random);
    outbox queue(where);
    claim_options how{.limit = 1'000};
    if (deed == "hold")
        how.start = 0;
    std::size_t count = 0;
    for (;;) {
        const auto claimed = queue.claim(me, how);
        if (claimed.empty())
            return count;
        settle(queue, me, claimed, deed, error);
        count += claimed.size();
    }
}

} // namespace

int main(int argc, char** argv)
{
    if (argc < 3)
        return 2;
    try {
        std::printf("%zu\n", work(argv[1], argv[2], argc > 3 ? argv[3] : "it failed"));
        return 0;
    } catch (const std::exception& failure) {
        std::fprintf(stderr, "cli_worker: %s\n", failure.what());
        return 1;
    }
}
