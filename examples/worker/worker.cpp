// The smallest honest worker: claims, handles, settles, until nothing is due any more.
//
// usage: example_worker URL
//
// Every message is handled by printing it; those of the topic "alarm" find nobody who listens and
// fail for good, so that there is a dead letter to look at.
#include <posthorn/posthorn.hpp>

#include <exception>
#include <iostream>
#include <vector>

namespace {

posthorn::outcome handle(const posthorn::delivery& what)
{
    std::cout << "  " << what.topic << ", attempt " << what.attempt << ": " << what.payload << "\n";
    if (what.topic == "alarm")
        return posthorn::fail("nobody listens to alarms");
    return posthorn::done();
}

void work(posthorn::store store)
{
    posthorn::outbox outbox(store);
    const auto me = posthorn::owner::create("example-worker", *store.environment().random);

    // A worker that died may have left messages behind; whoever comes next takes them back.
    outbox.reap_expired();
    for (auto batch = outbox.claim(me); !batch.empty(); batch = outbox.claim(me)) {
        std::cout << "claimed a batch of " << batch.size() << "\n";
        std::vector<posthorn::settlement> results;
        for (const auto& each : batch.deliveries)
            results.push_back({each.receipt, handle(each)});
        // One transaction for the whole batch, and an answer for each message.
        const auto answers = outbox.settle(me, results);
        if (answers.lost() > 0)
            std::cout << answers.lost() << " had passed on to another worker\n";
    }
}

} // namespace

int main(int argc, char** argv)
try {
    if (argc != 2) {
        std::cerr << "usage: example_worker URL\n";
        return 2;
    }
    work(posthorn::open(argv[1]));
    return 0;
} catch (const std::exception& failure) {
    std::cerr << "example_worker: " << failure.what() << "\n";
    return 1;
}
