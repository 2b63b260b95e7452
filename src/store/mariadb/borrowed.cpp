// The caller's own transaction, lent to Posthorn.
#include "core/validation.hpp"
#include "store/contract/lent.hpp"
#include "store/mariadb/sessions.hpp"
#include <posthorn/mariadb.hpp>

#include <memory>

namespace posthorn::mariadb {
namespace {

settings settings_of(const borrow_options& options)
{
    core::check_identifier("prefix", options.prefix);
    settings result;
    result.prefix = options.prefix;
    result.environment = options.environment;
    return result;
}

// Holds the connection's statements and the options next to the session that refers to them.
struct loan {
    loan(MYSQL* lent, const borrow_options& with) : options(with), db(lent, settings_of(with)) {}

    borrow_options options;
    connection db;
};

class borrowed_session final : private loan, public session_base {
public:
    borrowed_session(MYSQL* lent, const borrow_options& with)
        : loan(lent, with),
          session_base(loan::db, nullptr, loan::options.environment, loan::options.limits,
                       view::may_be_old)
    {}

    mariadb::writer& writer() override { return checked().session_base::writer(); }
    mariadb::queue& queue() override { return checked().session_base::queue(); }
    contract::message_reader& reader() override { return checked().session_base::reader(); }
    contract::message_keeper& keeper() override { return checked().session_base::keeper(); }
    contract::join_book& joins() override { return checked().session_base::joins(); }
    contract::inbox_book& inbox() override { return checked().session_base::inbox(); }
    contract::job_book& jobs() override { return checked().session_base::jobs(); }
    contract::key_table& command_keys() override { return checked().session_base::command_keys(); }
    contract::lease_table& leases() override { return checked().session_base::leases(); }

    void commit() override { contract::refuse_to_end(); }
    void rollback() override { contract::refuse_to_end(); }

private:
    borrowed_session& checked()
    {
        contract::require_transaction(loan::db.in_transaction(), "START TRANSACTION");
        return *this;
    }
};

} // namespace

borrowed_transaction::borrowed_transaction(st_mysql* connection, const borrow_options& options)
    : transaction(std::make_unique<borrowed_session>(contract::required(connection), options))
{}

} // namespace posthorn::mariadb
