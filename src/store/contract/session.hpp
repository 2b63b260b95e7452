// A session is one transaction on one connection, seen from Posthorn's components.
#pragma once

#include <posthorn/environment.hpp>
#include <posthorn/message.hpp>

namespace posthorn::contract {

class message_writer;
class message_queue;
class message_reader;
class message_keeper;
class settlement_follower;
class join_book;
class inbox_book;
class job_book;
class key_table;
class lease_table;

class session {
public:
    virtual ~session() = default;

    virtual message_writer& writer() = 0;
    virtual message_queue& queue() = 0;
    virtual message_reader& reader() = 0;
    virtual message_keeper& keeper() = 0;
    virtual join_book& joins() = 0;
    virtual inbox_book& inbox() = 0;
    virtual key_table& command_keys() = 0;
    virtual lease_table& leases() = 0;
    virtual job_book& jobs() = 0;

    /// Who follows the ends of messages; the parts of this session tell it by themselves.
    virtual settlement_follower& follower() = 0;

    virtual const posthorn::environment& environment() const = 0;
    virtual const posthorn::limits& limits() const = 0;

    virtual void commit() = 0;
    virtual void rollback() = 0;
};

} // namespace posthorn::contract
