// The rules of a lent connection: its transaction is used, and never begun or ended.
#pragma once

#include <posthorn/error.hpp>

#include <string>

namespace posthorn::contract {

/// Throws: `error` for a null connection.
template <typename Connection>
Connection* required(Connection* lent)
{
    if (lent == nullptr)
        throw error(error_code::invalid_argument, "the borrowed connection is null");
    return lent;
}

/// Outside a transaction every statement would commit by itself: never what the caller meant.
inline void require_transaction(bool open, const std::string& how_to_begin)
{
    if (!open)
        throw error(error_code::no_transaction,
                    "the borrowed connection has no transaction open; run " + how_to_begin +
                        " first");
}

[[noreturn]] inline void refuse_to_end()
{
    throw error(error_code::invalid_argument,
                "a borrowed transaction is its owner's to commit or roll back");
}

} // namespace posthorn::contract
