// Posthorn's side of every comparison, through its public interface alone.
#include "bench/workload.hpp"

#include <stdexcept>
#include <vector>

namespace bench {

namespace ph = posthorn;

posthorn_side::posthorn_side(const std::string& url)
    : store_((ph::migrate(url), ph::open(url))),
      outbox_(store_),
      owner_(ph::owner::create("bench", *store_.environment().random))
{}

void posthorn_side::enqueue(std::size_t messages, std::size_t per_transaction)
{
    if (per_transaction == 1) {
        for (std::size_t i = 0; i < messages; ++i)
            ph::enqueue(store_, {topic, payload});
        return;
    }
    for (std::size_t done = 0; done < messages; done += per_transaction) {
        const std::vector<ph::outgoing> bulk(per_transaction, {.message = {topic, payload}});
        ph::enqueue(store_, bulk);
    }
}

void posthorn_side::claim_and_acknowledge(std::size_t messages, std::size_t batch)
{
    for (std::size_t done = 0; done < messages;) {
        const auto claimed = outbox_.claim(owner_, {.limit = batch});
        const auto settled = outbox_.acknowledge(owner_, claimed.receipts()).settled();
        if (claimed.empty() || settled != claimed.size())
            throw std::runtime_error("messages are missing");
        done += settled;
    }
}

} // namespace bench
