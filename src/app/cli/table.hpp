// Tables and lists of facts, with columns that line up.
#pragma once

#include "app/cli/output.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace posthorn::cli {

/// Text in one place of a table. It is made printable before it is shown.
struct cell {
    std::string text;
    tint colour = tint::none;
};

struct column {
    enum class side { left, right };
    enum class cut { end, middle };

    std::string title;
    side aligned = side::left;
    std::size_t columns_max = 40; ///< longer text is cut
    cut where = cut::end;
};

/// Rows under titles.
class table {
public:
    explicit table(std::vector<column> columns) : columns_(std::move(columns)) {}

    void add(std::vector<cell> row);
    void print(output& to) const;

private:
    [[nodiscard]] std::vector<std::size_t> widths() const;

    std::vector<column> columns_;
    std::vector<std::vector<cell>> rows_;
};

/// Named values, one per line. Empty values are left out.
class fact_sheet {
public:
    void add(std::string_view name, std::string_view value, tint colour = tint::none);
    void print(output& to) const;

private:
    std::vector<std::pair<std::string, cell>> facts_;
};

} // namespace posthorn::cli
