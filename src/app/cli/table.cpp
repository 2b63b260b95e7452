// Lining up columns: text is made printable and measured first, and coloured last.
#include "app/cli/table.hpp"

#include "app/cli/text.hpp"

#include <algorithm>
#include <utility>

namespace posthorn::cli {
namespace {

constexpr std::string_view gap = "  ";

std::string spaces(std::size_t width, std::string_view text)
{
    return std::string(width - std::min(width, columns(text)), ' ');
}

std::string placed(const output& to, const cell& what, column::side aligned, std::size_t width)
{
    const auto padding = spaces(width, what.text);
    const auto text = what.text.empty() ? std::string{} : to.tinted(what.text, what.colour);
    return aligned == column::side::right ? padding + text : text + padding;
}

} // namespace

void table::add(std::vector<cell> row)
{
    for (std::size_t i = 0; i < row.size(); ++i) {
        const auto cut = columns_[i].where == column::cut::end ? shortened : shortened_inside;
        row[i].text = cut(printable(row[i].text), columns_[i].columns_max);
    }
    rows_.push_back(std::move(row));
}

std::vector<std::size_t> table::widths() const
{
    std::vector<std::size_t> result;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
        auto width = columns(columns_[i].title);
        for (const auto& row : rows_)
            width = std::max(width, columns(row[i].text));
        result.push_back(width);
    }
    return result;
}

void table::print(output& to) const
{
    const auto width = widths();
    const auto print_row = [&](const auto& cell_at) {
        std::string text;
        for (std::size_t i = 0; i < columns_.size(); ++i) {
            text += i == 0 ? std::string_view{} : gap;
            text += placed(to, cell_at(i), columns_[i].aligned, width[i]);
        }
        to.line(std::string_view{text}.substr(0, text.find_last_not_of(' ') + 1));
    };
    print_row([&](std::size_t i) { return cell{columns_[i].title, tint::bold}; });
    for (const auto& row : rows_)
        print_row([&](std::size_t i) { return row[i]; });
}

void fact_sheet::add(std::string_view name, std::string_view value, tint colour)
{
    if (!value.empty())
        facts_.push_back({printable(name), {printable(value), colour}});
}

void fact_sheet::print(output& to) const
{
    std::size_t width = 0;
    for (const auto& [name, value] : facts_)
        width = std::max(width, columns(name));
    for (const auto& [name, value] : facts_) {
        to.write(to.tinted(name, tint::dim));
        to.write(spaces(width, name));
        to.write(gap);
        to.line(to.tinted(value.text, value.colour));
    }
}

} // namespace posthorn::cli
