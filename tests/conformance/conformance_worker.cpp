// A worker process for processes_test: claims, notes what it handles, acknowledges, until told to
// stop.
//
// usage: conformance_worker URL NOTES STOP
//
// It appends the id of each message to NOTES before it acknowledges, and ends when the file STOP
// exists and nothing is left to claim.
#include <posthorn/posthorn.hpp>

#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>

namespace ph = posthorn;
using namespace std::chrono_literals;

int main(int argc, char** argv)
try {
    if (argc != 4)
        return 2;
    auto store = ph::open(argv[1]);
    const std::filesystem::path stop = argv[3];
    const int notes = open(argv[2], O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (notes < 0)
        return 2;

    ph::outbox box(store);
    const auto me = ph::owner::create(std::to_string(getpid()), *store.environment().random);
    for (;;) {
        const bool last_round = std::filesystem::exists(stop);
        const auto batch = box.claim(me, {.lease = 2s, .limit = 20});
        std::string lines;
        for (const auto& each : batch.deliveries)
            lines += to_string(each.receipt.id) + " " + std::to_string(getpid()) + "\n";
        if (write(notes, lines.data(), lines.size()) != static_cast<ssize_t>(lines.size()))
            return 1;
        box.acknowledge(me, batch.receipts());
        if (batch.empty() && last_round)
            return 0;
        if (batch.empty())
            store.environment().clock->pause(1ms);
    }
} catch (const std::exception& failure) {
    std::fprintf(stderr, "conformance_worker: %s\n", failure.what());
    return 1;
}
