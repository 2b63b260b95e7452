// What is measured everywhere: the message, and Posthorn's side of it.
#pragma once

#include <posthorn/posthorn.hpp>

#include <cstddef>
#include <string>

namespace bench {

inline const std::string topic = "order.placed";

// About 200 bytes of JSON, like the event of an ordinary shop.
inline const std::string payload =
    R"({"order_id":4711,"customer":"7c9e6679-7425-40de-944b-e07fc1f90ae7","total_cents":12990,)"
    R"("currency":"EUR","items":[{"sku":"A-100","count":2},{"sku":"B-205","count":1}],)"
    R"("note":"gift wrap"})";

/// One producer and one worker on a store.
class posthorn_side {
public:
    explicit posthorn_side(const std::string& url);

    void enqueue(std::size_t messages, std::size_t per_transaction);

    /// Throws: `std::runtime_error` when fewer messages come than should.
    void claim_and_acknowledge(std::size_t messages, std::size_t batch);

private:
    posthorn::store store_;
    posthorn::outbox outbox_;
    posthorn::owner owner_;
};

} // namespace bench
