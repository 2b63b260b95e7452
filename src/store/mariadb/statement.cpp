// Prepared statements: parameters by place, one row of them or many, and results of any length.
#include "store/contract/patience.hpp"
#include "store/mariadb/connection.hpp"
#include <posthorn/error.hpp>

#include <algorithm>
#include <cstring>

namespace posthorn::mariadb {
namespace {

bool is_integer(enum_field_types type)
{
    switch (type) {
    case MYSQL_TYPE_TINY:
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
    case MYSQL_TYPE_LONGLONG: return true;
    default: return false;
    }
}

// A null pointer would mean NULL to some versions of the client.
char* data_of(std::string_view text)
{
    static char nothing = '\0';
    return text.data() == nullptr ? &nothing : const_cast<char*>(text.data());
}

} // namespace

prepared_statement::prepared_statement(MYSQL* db, int socket, const std::string& text,
                                       std::string_view name)
    : handle_(mysql_stmt_init(db)), socket_(socket)
{
    if (handle_ == nullptr)
        throw_error(complaint_of(db), name);
    const contract::socket_wait interruptible(socket_);
    if (mysql_stmt_prepare(handle_, text.data(), text.size()) != 0) {
        const auto said = complaint_of(handle_);
        mysql_stmt_close(handle_);
        throw_error(said, name);
    }
}

prepared_statement::~prepared_statement()
{
    mysql_stmt_close(handle_);
}

query::query(prepared_statement& prepared, const contract::named_statement& which)
    : prepared_(prepared), which_(which)
{
    const auto largest = std::ranges::max_element(which.places);
    current_.resize(largest == which.places.end() ? 0 : std::size_t{*largest});
}

query::~query()
{
    if (!executed_ || !prepared_.usable_)
        return;
    const contract::socket_wait interruptible(prepared_.socket_);
    mysql_stmt_free_result(prepared_.handle_);
    // After the rows of a block comes its end.
    int more = 0;
    while (more == 0 && mysql_stmt_more_results(prepared_.handle_) != 0)
        more = mysql_stmt_next_result(prepared_.handle_);
    prepared_.usable_ = more <= 0;
}

void query::fail() const
{
    throw_error(complaint_of(prepared_.handle_), which_.name);
}

void query::fail_among_rows()
{
    prepared_.usable_ = false;
    fail();
}

query& query::bind(int number, std::int64_t value)
{
    current_.at(static_cast<std::size_t>(number) - 1) = value;
    return *this;
}

query& query::bind(int number, const std::optional<timestamp>& value)
{
    return value ? bind(number, *value) : *this;
}

query& query::bind_bytes(int number, std::string_view value)
{
    current_.at(static_cast<std::size_t>(number) - 1) = value;
    return *this;
}

query& query::bind_bytes_or_null(int number, std::string_view value)
{
    return value.empty() ? *this : bind_bytes(number, value);
}

query& query::bind_ascii(int number, std::string_view value)
{
    current_.at(static_cast<std::size_t>(number) - 1) = ascii{value};
    return *this;
}

void query::end_row()
{
    const auto width = current_.size();
    finished_rows_.push_back(std::move(current_));
    current_.assign(width, {});
}

// Whether a `?` stands for a number or for text is the same in every row; NULL fits both.
void query::execute_one(const parameter_row& row)
{
    std::vector<MYSQL_BIND> places(which_.places.size());
    std::vector<std::int64_t> numbers(places.size());
    std::vector<unsigned long> lengths(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        const auto& value = row[which_.places[i] - 1U];
        auto& place = places[i];
        std::memset(&place, 0, sizeof place);
        std::string_view text;
        if (const auto* integer = std::get_if<std::int64_t>(&value)) {
            numbers[i] = *integer;
            place.buffer_type = MYSQL_TYPE_LONGLONG;
            place.buffer = &numbers[i];
            continue;
        }
        if (const auto* bytes = std::get_if<std::string_view>(&value)) {
            place.buffer_type = MYSQL_TYPE_BLOB;
            text = *bytes;
        } else if (const auto* chars = std::get_if<ascii>(&value)) {
            place.buffer_type = MYSQL_TYPE_STRING;
            text = chars->text;
        } else {
            place.buffer_type = MYSQL_TYPE_NULL;
            continue;
        }
        place.buffer = data_of(text);
        lengths[i] = static_cast<unsigned long>(text.size());
        place.buffer_length = lengths[i];
        place.length = &lengths[i];
    }
    const unsigned one_row = 0;
    mysql_stmt_attr_set(prepared_.handle_, STMT_ATTR_ARRAY_SIZE, &one_row);
    if (!places.empty() && mysql_stmt_bind_param(prepared_.handle_, places.data()) != 0)
        fail();
    if (mysql_stmt_execute(prepared_.handle_) != 0)
        fail();
}

// How many rows travel together: at least one, whatever its size.
std::size_t query::size_of_piece(std::span<const parameter_row> rest) const
{
    // Half of the smallest max_allowed_packet that servers are given.
    constexpr std::size_t bytes_max = std::size_t{512} << 10U;
    constexpr std::size_t bytes_around_value = 10;
    std::size_t bytes = 0;
    std::size_t count = 0;
    for (const auto& row : rest) {
        for (const auto place : which_.places) {
            const auto* text = std::get_if<std::string_view>(&row[place - 1U]);
            bytes += bytes_around_value + (text != nullptr ? text->size() : 0);
        }
        if (count > 0 && bytes > bytes_max)
            break;
        ++count;
    }
    return count;
}

void query::execute_all()
{
    std::span<const parameter_row> rest = finished_rows_;
    const bool gives_rows = mysql_stmt_field_count(prepared_.handle_) > 0;
    for (;;) {
        const auto count = gives_rows ? rest.size() : size_of_piece(rest);
        if (count == 1)
            execute_one(rest.front());
        else
            execute_many(rest.first(count));
        rest = rest.subspan(count);
        if (rest.empty())
            return;
        changed_ += static_cast<std::int64_t>(mysql_stmt_affected_rows(prepared_.handle_));
    }
}

// All rows travel together, and the server executes the statement once for each.
void query::execute_many(std::span<const parameter_row> all)
{
    struct array {
        std::vector<std::int64_t> numbers;
        std::vector<char*> texts;
        std::vector<unsigned long> lengths;
        std::vector<char> indicators;
    };
    const auto rows = all.size();
    std::vector<MYSQL_BIND> places(which_.places.size());
    std::vector<array> arrays(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
        auto& [numbers, texts, lengths, indicators] = arrays[i];
        numbers.resize(rows);
        texts.resize(rows);
        lengths.resize(rows);
        indicators.assign(rows, STMT_INDICATOR_NONE);
        bool numeric = false;
        for (std::size_t r = 0; r < rows; ++r) {
            const auto& value = all[r][which_.places[i] - 1U];
            if (const auto* integer = std::get_if<std::int64_t>(&value)) {
                numeric = true;
                numbers[r] = *integer;
            } else if (const auto* bytes = std::get_if<std::string_view>(&value)) {
                texts[r] = data_of(*bytes);
                lengths[r] = static_cast<unsigned long>(bytes->size());
            } else {
                indicators[r] = STMT_INDICATOR_NULL;
            }
        }
        auto& place = places[i];
        std::memset(&place, 0, sizeof place);
        place.buffer_type = numeric ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_BLOB;
        place.buffer = numeric ? static_cast<void*>(numbers.data()) : texts.data();
        place.length = lengths.data();
        place.u.indicator = indicators.data();
    }
    const auto count = static_cast<unsigned>(rows);
    mysql_stmt_attr_set(prepared_.handle_, STMT_ATTR_ARRAY_SIZE, &count);
    if (mysql_stmt_bind_param(prepared_.handle_, places.data()) != 0)
        fail();
    if (mysql_stmt_execute(prepared_.handle_) != 0)
        fail();
}

void query::execute()
{
    executed_ = true;
    const contract::socket_wait interruptible(prepared_.socket_);
    if (finished_rows_.empty())
        execute_one(current_);
    else
        execute_all();
    if (mysql_stmt_field_count(prepared_.handle_) == 0)
        return;
    prepare_columns();
    if (mysql_stmt_store_result(prepared_.handle_) != 0)
        fail_among_rows();
}

void query::prepare_columns()
{
    const auto count = std::size_t{mysql_stmt_field_count(prepared_.handle_)};
    auto& columns = prepared_.columns_;
    auto& results = prepared_.results_;
    if (columns.size() != count) {
        const std::unique_ptr<MYSQL_RES, void (*)(MYSQL_RES*)> fields(
            mysql_stmt_result_metadata(prepared_.handle_), &mysql_free_result);
        columns.assign(count, {});
        results.assign(count, {});
        for (std::size_t i = 0; i < count; ++i) {
            auto& column = columns[i];
            auto& result = results[i];
            column.is_number =
                is_integer(mysql_fetch_field_direct(fields.get(), static_cast<unsigned>(i))->type);
            std::memset(&result, 0, sizeof result);
            result.length = &column.length;
            result.is_null = &column.null;
            result.error = &column.cut_short;
            if (column.is_number) {
                result.buffer_type = MYSQL_TYPE_LONGLONG;
                result.buffer = &column.number;
            } else {
                column.bytes.resize(64);
                result.buffer_type = MYSQL_TYPE_BLOB;
                result.buffer = column.bytes.data();
                result.buffer_length = static_cast<unsigned long>(column.bytes.size());
            }
        }
    }
    if (mysql_stmt_bind_result(prepared_.handle_, results.data()) != 0)
        fail();
}

bool query::step()
{
    if (!executed_)
        execute();
    if (mysql_stmt_field_count(prepared_.handle_) == 0)
        return false;
    const int code = mysql_stmt_fetch(prepared_.handle_);
    if (code == MYSQL_NO_DATA)
        return false;
    if (code != 0 && code != MYSQL_DATA_TRUNCATED)
        fail_among_rows();
    // Values that were longer than their buffer are fetched again; the buffer stays large.
    bool grown = false;
    for (std::size_t i = 0; i < prepared_.columns_.size(); ++i) {
        auto& column = prepared_.columns_[i];
        if (column.is_number || column.null != 0 || column.length <= column.bytes.size())
            continue;
        column.bytes.resize(column.length + column.length / 2);
        auto& result = prepared_.results_[i];
        result.buffer = column.bytes.data();
        result.buffer_length = static_cast<unsigned long>(column.bytes.size());
        if (mysql_stmt_fetch_column(prepared_.handle_, &result, static_cast<unsigned>(i), 0) != 0)
            fail();
        grown = true;
    }
    if (grown && mysql_stmt_bind_result(prepared_.handle_, prepared_.results_.data()) != 0)
        fail();
    return true;
}

std::int64_t query::run()
{
    while (step()) {}
    return changed_ + static_cast<std::int64_t>(mysql_stmt_affected_rows(prepared_.handle_));
}

bool query::is_null(int column) const
{
    return prepared_.columns_.at(static_cast<std::size_t>(column)).null != 0;
}

std::int64_t query::integer(int column) const
{
    const auto& found = prepared_.columns_.at(static_cast<std::size_t>(column));
    if (!found.is_number)
        throw error(error_code::internal, "a column that is no number was read as one",
                    {.statement = std::string(which_.name)});
    return found.null != 0 ? 0 : found.number;
}

std::optional<timestamp> query::time_or_none(int column) const
{
    return is_null(column) ? std::nullopt : std::optional{time(column)};
}

std::string_view query::text(int column) const
{
    const auto& found = prepared_.columns_.at(static_cast<std::size_t>(column));
    return found.null != 0 ? std::string_view{}
                           : std::string_view{found.bytes.data(), found.length};
}

message_id query::id(int column) const
{
    uuid value;
    const auto bytes = text(column);
    if (bytes.size() == value.bytes.size())
        std::memcpy(value.bytes.data(), bytes.data(), bytes.size());
    return message_id{value};
}

std::string_view query::bytes_of(const message_id& id)
{
    const auto& bytes = id.value().bytes;
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

} // namespace posthorn::mariadb
