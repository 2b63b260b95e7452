// The stores that a configuration means at this moment. What one entry cannot find now changes
// nothing: its stores of before stay.
#pragma once

#include "app/daemon/config.hpp"
#include "app/daemon/journal.hpp"
#include <posthorn/stores.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace posthorn::daemon {

/// Threads: safe to use from any.
class store_book {
public:
    store_book(std::vector<store_settings> entries, std::shared_ptr<journal> log);

    /// All of them, each once. Where tables may be made, new stores get them.
    [[nodiscard]] std::vector<named_store> list();

    /// How often asking again makes sense.
    [[nodiscard]] duration every() const;

private:
    struct entry {
        store_settings what;
        std::vector<named_store> found = {};
        std::optional<monotonic_time> asked_at = {};
        bool failed = false;
    };

    void refresh(entry& which);
    void migrate_new(const std::vector<named_store>& these);

    const environment world_ = environment::system();
    std::shared_ptr<journal> log_; // shared with everything that has something to say
    std::mutex mutex_;
    std::vector<entry> entries_;
    std::set<std::string> migrated_; ///< URLs
};

/// The stores of one entry, asked now. Throws: `error`.
[[nodiscard]] std::vector<named_store> find_stores(const store_settings& which);

/// The name of a store that was given none: its address, with the schema or prefix if there is one.
[[nodiscard]] std::string default_name(const secret_url& url);

} // namespace posthorn::daemon
