// What a handler does beside its message: a row in a table of the application, written through the
// connection of a transaction.
#pragma once

#include <posthorn/transaction.hpp>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace posthorn::torture {

/// Runs one statement in the transaction, on a store of any engine. `url` tells which.
/// Throws: `std::runtime_error` with the engine's own words.
void execute_in(transaction& tx, std::string_view url, const std::string& sql);

/// The same for a query. Returns: the first column of each row.
[[nodiscard]] std::vector<std::string> texts_in(transaction& tx, std::string_view url,
                                                const std::string& sql);

/// The same for a query. Returns: the first column of the first row, a number.
[[nodiscard]] std::int64_t count_in(transaction& tx, std::string_view url, const std::string& sql);

} // namespace posthorn::torture
