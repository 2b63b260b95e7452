// The caller's own transaction, lent to Posthorn; and ours, lent to the caller.
#include "core/validation.hpp"
#include "store/contract/lent.hpp"
#include "store/postgres/sessions.hpp"
#include "store/postgres/statements.hpp"
#include <posthorn/error.hpp>
#include <posthorn/postgres.hpp>

#include <fmt/format.h>

#include <memory>
#include <string_view>

namespace posthorn::postgres {
namespace {

std::string prefix_of(const borrow_options& options)
{
    core::check_identifier("schema", options.schema);
    return options.schema + ".";
}

// The server reports each change, so this sends nothing. Bytes that are not converted are checked.
void require_utf8(const PGconn* db)
{
    const auto reported = [&](const char* name) -> std::string_view {
        const char* value = PQparameterStatus(db, name);
        return value == nullptr ? "UTF8" : value;
    };
    const auto client = reported("client_encoding");
    const auto server = reported("server_encoding");
    if (client == "UTF8" || (client == "SQL_ASCII" && (server == "UTF8" || server == client)))
        return;
    throw error(error_code::invalid_argument,
                fmt::format("the client_encoding of this connection is {}, and Posthorn's text is "
                            "UTF-8: execute SET client_encoding = 'UTF8' before you lend it",
                            client));
}

// Holds the connection and the options next to the session that refers to them.
struct loan {
    loan(PGconn* lent, const borrow_options& with) : options(with), db(lent, prefix_of(with)) {}

    borrow_options options;
    connection db;
    frontier front;
};

class borrowed_session final : private loan, public session_base {
public:
    borrowed_session(PGconn* lent, const borrow_options& with)
        : loan(lent, with),
          session_base(loan::db, conversation::purpose::lent, loan::options.environment,
                       loan::options.limits, loan::front, with.ring ? ringing::yes : ringing::no)
    {}

    postgres::writer& writer() override { return checked().session_base::writer(); }
    postgres::queue& queue() override
    {
        auto& own = checked();
        read_mark(own.loan::db, front);
        return own.session_base::queue();
    }
    contract::message_reader& reader() override { return checked().session_base::reader(); }
    contract::message_keeper& keeper() override { return checked().session_base::keeper(); }
    contract::join_book& joins() override { return checked().session_base::joins(); }
    contract::inbox_book& inbox() override { return checked().session_base::inbox(); }
    contract::job_book& jobs() override { return checked().session_base::jobs(); }
    contract::key_table& command_keys() override { return checked().session_base::command_keys(); }
    contract::lease_table& leases() override { return checked().session_base::leases(); }

    PGconn* native() override { return checked().session_base::native(); }

    void commit() override { contract::refuse_to_end(); }
    void rollback() override { contract::refuse_to_end(); }

private:
    borrowed_session& checked()
    {
        contract::require_transaction(loan::db.in_transaction(), "BEGIN");
        require_utf8(loan::db.handle());
        return *this;
    }
};

} // namespace

pg_conn* native_handle(transaction& tx)
{
    auto* const ours = dynamic_cast<session_base*>(&tx.session());
    if (ours == nullptr)
        throw error(error_code::invalid_argument,
                    "this transaction is not one of a PostgreSQL store");
    return ours->native();
}

borrowed_transaction::borrowed_transaction(pg_conn* connection, const borrow_options& options)
    : transaction(std::make_unique<borrowed_session>(contract::required(connection), options))
{}

} // namespace posthorn::postgres
