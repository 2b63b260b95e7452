// Turns a store's .sql files into a C++ header, so that statements have names the compiler checks
// and parameters that nobody counts by hand.
//
// usage: embed_sql OUT.hpp NAMESPACE [FILE.sql …] [--migrations NNNN_name.sql …]
//
// In a statement file, `-- name: x` starts a statement, `-- fragment: y` a piece of text that
// statements include as `{{y}}`. Every `:word` is a parameter;
// the header gives its number as `x::word`.
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

// The parameters in the order of their first appearance, which is how SQLite numbers them too.
std::vector<std::string> parameters(const std::string& text)
{
    std::vector<std::string> names;
    bool quoted = false;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '\'')
            quoted = !quoted;
        if (quoted || text[i] != ':')
            continue;
        auto end = i + 1;
        while (end < text.size() &&
               (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
            ++end;
        const auto name = text.substr(i + 1, end - i - 1);
        if (!name.empty() && std::find(names.begin(), names.end(), name) == names.end())
            names.push_back(name);
    }
    return names;
}

// String literals have a length limit in the standard; several short ones in a row do not.
void write_literal(std::ostream& out, std::string_view text)
{
    constexpr std::size_t piece = 8'000;
    for (std::size_t at = 0; at < text.size() || at == 0; at += piece)
        out << "R\"sql(" << text.substr(at, piece) << ")sql\"\n";
}

void write_statements(std::ostream& out, const std::vector<statement>& statements)
{
    int index = 0;
    for (const auto& each : statements) {
        out << "struct " << each.name << " {\n    enum parameter : int {";
        int number = 0;
        for (const auto& name : parameters(each.text)) {
            out << (number == 0 ? " " : ", ") << name << " = " << number + 1;
            ++number;
        }
        out << (number == 0 ? "" : " ") << "};\n"
            << "    static constexpr posthorn::contract::named_statement text{" << index++ << ", \""
            << each.name << "\",\n";
        write_literal(out, each.text);
        out << "};\n};\n\n";
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
    if (arguments.size() < 2)
        throw std::runtime_error(
            "usage: embed_sql OUT.hpp NAMESPACE [FILE.sql …] [--migrations FILE.sql …]");
    statement_files files;
    std::vector<std::string> migrations;
    bool in_migrations = false;
    for (std::size_t i = 2; i < arguments.size(); ++i) {
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
    write_statements(out, files.finished());
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
