// A store as the conformance suite sees it: how to make a fresh one, reach it again, and borrow
// from it. Every engine implements these two interfaces once; stores.cpp registers it with one
// line.
#pragma once

#include "conformance/sql_message.hpp"
#include <posthorn/posthorn.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <vector>

namespace posthorn::conformance {

/// A connection of the application itself, made with the engine's own client and without Posthorn.
class native_connection {
public:
    virtual ~native_connection() = default;

    /// Opens a transaction that may write.
    virtual void begin() = 0;
    virtual void commit() = 0;
    virtual void rollback() = 0;
    [[nodiscard]] virtual bool in_transaction() const = 0;

    /// Throws: `std::runtime_error` with the engine's own words.
    virtual void execute(const std::string& sql) = 0;

    /// The first column of the first row.
    [[nodiscard]] virtual std::int64_t count(const std::string& sql) = 0;
    [[nodiscard]] virtual std::string text(const std::string& sql) = 0;

    /// Runs what may fail so that an open transaction goes on: behind a savepoint, on engines where
    /// an error would end it. That is their users' habit, and Posthorn promises nothing better.
    virtual void attempt(const std::function<void()>& action) { action(); }

    /// Enqueues by the engine's SQL contract, without Posthorn. Returns: the id of the message, or
    /// of the earlier one with the same dedup key.
    virtual message_id send(const sql_message& message) = 0;

    /// How many rows enqueueing has left, in all the tables that it writes.
    [[nodiscard]] virtual std::int64_t rows() = 0;

    /// The database's clock.
    [[nodiscard]] virtual timestamp now() = 0;

    /// The same connection, lent to Posthorn; one object for all of its transactions.
    [[nodiscard]] virtual transaction& borrow() = 0;
};

/// What a store can be asked for; where it can not, the ledger of skips says why.
struct features {
    bool second_handle = true;      ///< a second handle reaches the same messages
    bool native_connections = true; ///< the application can connect past Posthorn
    bool other_processes = true;    ///< another process can open its URL

    // Who refuses a bad argument of the SQL contract, and so in whose words.
    bool untyped_arguments =
        true;                   ///< one of a wrong type reaches Posthorn; else the engine objects
    bool unchecked_text = true; ///< text that is no UTF-8 reaches Posthorn; else the same
};

/// One fresh, empty store; gone with this object.
class store_under_test {
public:
    virtual ~store_under_test() = default;

    [[nodiscard]] virtual std::string url() const = 0;

    /// A handle to it, each time a new one.
    [[nodiscard]] virtual store open(const store_options& options) = 0;

    /// A handle that gives up on a locked store almost at once.
    [[nodiscard]] virtual store open_impatient(const store_options& options) = 0;

    [[nodiscard]] virtual std::unique_ptr<native_connection> connect(const environment& world) = 0;

    /// A table of the application, as statements on any connection to this store can call it.
    [[nodiscard]] virtual std::string table_of_application() const { return "business"; }

    /// The table that messages are in, for tests that damage it.
    [[nodiscard]] virtual std::string table_of_messages() const { return "posthorn_message"; }

    /// Runs a statement of the application on the connection of a transaction: on what the engine's
    /// `native_handle` answers. Returns: the first column of the first row, or nothing without one.
    virtual std::optional<std::string> run_in(transaction& /*tx*/, const std::string& /*sql*/)
    {
        throw std::logic_error("this engine does not lend its connections to tests yet");
    }
};

/// An engine, or a way to use one.
struct store_kind {
    std::string name;
    features can;
    std::function<std::unique_ptr<store_under_test>()> make;

    friend void PrintTo(const store_kind& kind, std::ostream* out) { *out << kind.name; }
};

/// Everything that is registered.
[[nodiscard]] const std::vector<store_kind>& store_kinds();

} // namespace posthorn::conformance
