// One request of HTTP: from a message to its answer. The only part that speaks to curl about it.
#pragma once

#include "transport/webhook/address_guard.hpp"
#include "transport/webhook/batch.hpp"
#include "transport/webhook/endpoint_health.hpp"
#include <posthorn/webhook.hpp>

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>

namespace posthorn::transports {

struct easy_closer {
    void operator()(CURL* which) const { curl_easy_cleanup(which); }
};
struct list_closer {
    void operator()(curl_slist* which) const { curl_slist_free_all(which); }
};
using easy_handle = std::unique_ptr<CURL, easy_closer>;

/// What all transfers share.
struct transfer_setting {
    webhook_options options;
    std::vector<std::string> keys; ///< the bytes of the secrets
    address_guard guard;
    name_lookup lookup;         ///< empty: the system's
    std::string usual_endpoint; ///< of `options.url`; it alone gets `options.headers`
};

class transfer {
public:
    /// Lifetime: all of it outlives the transfer.
    transfer(const transfer_setting& with, webhook_batch& of, std::size_t index, easy_handle easy);
    transfer(const transfer&) = delete;
    transfer& operator=(const transfer&) = delete;

    /// False: curl does not even take it.
    [[nodiscard]] bool prepare(std::int64_t unix_seconds);

    struct end {
        publish_answer answer;
        exchange how = exchange::cut;
        std::optional<duration> retry_after = {};
    };

    /// Requires: curl is done with it.
    [[nodiscard]] end ended(CURLcode result) const;

    /// Requires: it is not over, and is no longer curl's.
    [[nodiscard]] end cut(std::string_view reason) const;

    [[nodiscard]] CURL* handle() const noexcept { return easy_.get(); }
    [[nodiscard]] webhook_batch& batch() const noexcept { return *batch_; }
    [[nodiscard]] std::size_t index() const noexcept { return index_; }
    [[nodiscard]] const webhook_target& target() const noexcept { return *target_; }

    bool is_trial = false;

    /// For the next one.
    [[nodiscard]] easy_handle give_back();

private:
    [[nodiscard]] bool set_message(std::int64_t unix_seconds);
    [[nodiscard]] bool add(std::string_view name, std::string_view value);
    [[nodiscard]] bool pin_names();
    [[nodiscard]] long status() const;
    [[nodiscard]] bool was_sent() const;
    [[nodiscard]] end answered(long status) const;
    [[nodiscard]] end failed(CURLcode result) const;

    static curl_socket_t open_socket(void* self, curlsocktype purpose, curl_sockaddr* where);
    static std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* self);

    const transfer_setting* setting_;
    webhook_batch* batch_;
    std::size_t index_;
    std::shared_ptr<const webhook_target> target_; // shared with the batch
    easy_handle easy_;
    std::unique_ptr<curl_slist, list_closer> lines_;
    std::unique_ptr<curl_slist, list_closer> pinned_;
    std::string body_; ///< the beginning of the answer's
    std::size_t body_bytes_ = 0;
    std::optional<ip_address> refused_; ///< by the guard
    bool tried_ = false;                ///< an address that the guard allows
};

} // namespace posthorn::transports
