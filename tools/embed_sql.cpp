// Turns a store's .sql files into a C++ header, so that statements have names the compiler checks
// and parameters that nobody counts by hand.
//
// usage: embed_sql OUT.hpp NAMESPACE STYLE [FILE.sql …] [--migrations NNNN_name.sql …]
//
// In a statement file, `-- name: x` starts a statement, `-- fragment: y` a piece of text that
// statements include as `{{y}}`. Every `:word` is a parameter; the header gives its number as
// `x::word`. STYLE says how the engine wants parameters written: `colon` leaves them as they are
// (SQLite), `dollar` makes them $1, $2 … (PostgreSQL), `question` makes each of them a `?` and
// lists which parameter each `?` stands for (MariaDB).
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace {

struct statement {
    std::string name;
    std::string text;
};

std::string trimmed(std::string text)
{
    const auto blank = [](unsigned char c) { return std::isspace(c) != 0; };
    text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), blank));
    text.erase(std::find_if_not(text.rbegin(), text.rend(), blank).base(), text.end());
    return text;
}

std::string file_text(const std::string& path)
{
    std::ifstream file(path);
    if (!file)
        throw std::runtime_error("cannot read " + path);
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
}

class statement_files {
public:
    void read(const std::string& path)
    {
        std::istringstream lines(file_text(path));
        std::string* text = nullptr;
        for (std::string line; std::getline(lines, line);) {
            if (line.starts_with("-- name: ")) {
                statements_.push_back({trimmed(line.substr(9)), {}});
                text = &statements_.back().text;
            } else if (line.starts_with("-- fragment: ")) {
                text = &fragments_[trimmed(line.substr(13))];
            } else if (text != nullptr && !trimmed(line).starts_with("--")) {
                *text += line + "\n";
            }
        }
    }

    std::vector<statement> finished() const
    {
        auto result = statements_;
        for (auto& each : result) {
            for (auto at = each.text.find("{{"); at != std::string::npos;
                 at = each.text.find("{{")) {
                const auto end = each.text.find("}}", at);
                const auto name = each.text.substr(at + 2, end - at - 2);
                const auto found = fragments_.find(name);
                if (end == std::string::npos || found == fragments_.end())
                    throw std::runtime_error("statement " + each.name + ": no fragment " + name);
                each.text.replace(at, end + 2 - at, trimmed(found->second));
            }
            each.text = trimmed(each.text);
            if (each.text.ends_with(';'))
                each.text.pop_back();
        }
        return result;
    }

private:
    std::vector<statement> statements_;
    std::map<std::string, std::string> fragments_;
};

// A statement's text as its engine wants it, with its parameters in the order of their first
// appearance, which is how SQLite numbers them too.
struct numbered {
    std::string text;
    std::vector<std::string> parameters;
    std::vector<std::size_t> places; ///< the parameter's number for each `?`
};

bool is_word(char c)
{
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

numbered with_numbers(const std::string& text, const std::string& style)
{
    numbered result;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size();) {
        if (text[i] == '\'')
            quoted = !quoted;
        const bool cast = text[i] == ':' && i + 1 < text.size() && text[i + 1] == ':';
        auto end = i + 1;
        while (end < text.size() && is_word(text[end]))
            ++end;
        if (quoted || cast || text[i] != ':' || end == i + 1) {
            result.text += text.substr(i, cast ? 2 : 1);
            i += cast ? 2 : 1;
            continue;
        }
        const auto name = text.substr(i + 1, end - i - 1);
        auto& names = result.parameters;
        auto found = std::find(names.begin(), names.end(), name);
        if (found == names.end())
            found = names.insert(names.end(), name);
        const auto number = static_cast<std::size_t>(found - names.begin()) + 1;
        if (style == "colon") {
            result.text += ":" + name;
        } else if (style == "dollar") {
            result.text += "$" + std::to_string(number);
        } else {
            result.text += "?";
            result.places.push_back(number);
        }
        i = end;
    }
    return result;
}

// String literals have a length limit in the standard; several short ones in a row do not.
void write_literal(std::ostream& out, std::string_view text)
{
    constexpr std::size_t piece = 8'000;
    for (std::size_t at = 0; at < text.size() || at == 0; at += piece)
        out << "R\"sql(" << text.substr(at, piece) << ")sql\"\n";
}

void write_statements(std::ostream& out, const std::vector<statement>& statements,
                      const std::string& style)
{
    int index = 0;
    for (const auto& each : statements) {
        const auto made = with_numbers(each.text, style);
        out << "struct " << each.name << " {\n    enum parameter : int {";
        int number = 0;
        for (const auto& name : made.parameters) {
            out << (number == 0 ? " " : ", ") << name << " = " << number + 1;
            ++number;
        }
        out << (number == 0 ? "" : " ") << "};\n";
        if (!made.places.empty()) {
            out << "    static constexpr std::array<std::uint8_t, " << made.places.size()
                << "> places{";
            for (std::size_t i = 0; i < made.places.size(); ++i)
                out << (i == 0 ? "" : ", ") << made.places[i];
            out << "};\n";
        }
        out << "    static constexpr posthorn::contract::named_statement text{" << index++ << ", \""
            << each.name << "\",\n";
        write_literal(out, made.text);
        out << ", " << made.parameters.size() << (made.places.empty() ? "" : ", places")
            << "};\n};\n\n";
    }
    out << "inline constexpr std::array<posthorn::contract::named_statement, " << statements.size()
        << "> all{\n";
    for (const auto& each : statements)
        out << "    " << each.name << "::text,\n";
    out << "};\n\n";
}

void write_migrations(std::ostream& out, const std::vector<std::string>& paths)
{
    out << "inline constexpr std::array<posthorn::contract::migration, " << paths.size()
        << "> migrations{\n";
    for (const auto& path : paths) {
        const auto stem = std::filesystem::path(path).stem().string();
        out << "    posthorn::contract::migration{" << std::stoi(stem) << ", \"" << stem << "\",\n";
        write_literal(out, file_text(path));
        out << "},\n";
    }
    out << "};\n\n";
}

void run(const std::vector<std::string>& arguments)
{
    const std::vector<std::string> styles{"colon", "dollar", "question"};
    if (arguments.size() < 3 ||
        std::find(styles.begin(), styles.end(), arguments[2]) == styles.end())
        throw std::runtime_error("usage: embed_sql OUT.hpp NAMESPACE colon|dollar|question "
                                 "[FILE.sql …] [--migrations FILE.sql …]");
    statement_files files;
    std::vector<std::string> migrations;
    bool in_migrations = false;
    for (std::size_t i = 3; i < arguments.size(); ++i) {
        if (arguments[i] == "--migrations")
            in_migrations = true;
        else if (in_migrations)
            migrations.push_back(arguments[i]);
        else
            files.read(arguments[i]);
    }
    std::ofstream out(arguments[0]);
    out << "// Made by embed_sql from the .sql files; change those.\n#pragma once\n\n"
        << "#include \"store/contract/named_statement.hpp\"\n\n#include <array>\n\n"
        << "namespace " << arguments[1] << " {\n\n";
    write_statements(out, files.finished(), arguments[2]);
    write_migrations(out, migrations);
    out << "} // namespace " << arguments[1] << "\n";
    if (!out.flush())
        throw std::runtime_error("cannot write " + arguments[0]);
}

} // namespace

int main(int argc, char** argv)
{
    try {
        run({argv + 1, argv + argc});
        return 0;
    } catch (const std::exception& failure) {
        std::cerr << "embed_sql: " << failure.what() << "\n";
        return 1;
    }
}
