// The application's own table, on whatever engine the store is.
#pragma once

#include <posthorn/transaction.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct user {
    std::int64_t id = 0;
    std::string email;
};

/// Works on the connection of the transaction that it is given, so what it does shares the fate of
/// the messages that are enqueued there.
class user_table {
public:
    virtual ~user_table() = default;

    virtual void create(posthorn::transaction& tx) = 0;
    virtual void insert(posthorn::transaction& tx, const user& who) = 0;
    virtual std::int64_t count(posthorn::transaction& tx) = 0;
};

std::unique_ptr<user_table> users_of(std::string_view url);
