// The service as clients see it: three routes on the loopback interface.
//
//     POST /users          {"email", "name"}    Idempotency-Key: UUID     201 {"id"}
//     POST /users/verify   {"email", "code"}    Idempotency-Key: UUID     200 {"id"}
//     GET  /users/ID                                                      200 {"id", …, "state"}
#pragma once

#include "user_table.hpp"
#include <posthorn/commands.hpp>

#include <memory>

namespace users {

class http_service {
public:
    /// Lifetime: what it is given must outlive it.
    http_service(posthorn::command_pipeline& commands, const user_table& table,
                 const posthorn::store& store);
    http_service(const http_service&) = delete;
    http_service& operator=(const http_service&) = delete;
    ~http_service();

    /// Returns: the port. Throws: `std::runtime_error` if it is not free.
    int start(int port);

    /// Lets requests that have begun end.
    void stop();

private:
    struct state;
    std::unique_ptr<state> state_;
};

} // namespace users
