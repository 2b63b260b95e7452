// The stores that a configuration means at this moment. Looking for them and making their tables
// may take as long as databases like, so it happens beside everybody who asks: they are told what
// is known. What one entry cannot find now changes nothing: its stores of before stay.
#pragma once

#include "app/daemon/config.hpp"
#include "app/daemon/journal.hpp"
#include "app/daemon/store_search.hpp"
#include "runtime/thread_pool.hpp"
#include <posthorn/stores.hpp>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::daemon {

/// Threads: safe to use from any.
class store_book {
public:
    /// Begins with what the book before knows about the same entries.
    store_book(std::vector<store_settings> entries, std::shared_ptr<journal> log,
               const store_book* before = nullptr);
    store_book(const store_book&) = delete;
    store_book& operator=(const store_book&) = delete;

    /// Whatever still looks for stores then is left to itself, and ends by itself.
    ~store_book();

    /// All that are known, each once, and sees to it that what is due is looked for. Where tables
    /// may be made, a store is known once that was tried. Never waits for a database, except for a
    /// moment at the beginning, so that the first list is a whole one if databases answer.
    [[nodiscard]] std::vector<named_store> list();

    /// The store of this name in the same list.
    [[nodiscard]] std::optional<named_store> find(std::string_view name) const;

    /// How often asking again makes sense.
    [[nodiscard]] duration every() const;

    /// Begins to look for what is due.
    void look();

    /// Whether everything was looked for at least once.
    [[nodiscard]] bool has_looked() const;

    /// The entries of which nothing is known because looking has failed, and why.
    [[nodiscard]] std::vector<std::string> failures() const;

private:
    struct state;
    std::shared_ptr<state> state_; // shared with threads that look, which may outlive the book
    runtime::thread_pool threads_;
};

} // namespace posthorn::daemon
