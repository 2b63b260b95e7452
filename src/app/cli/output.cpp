// Streams and colours. Colours and bars are for eyes: a file or a pipe gets plain text.
#include "app/cli/output.hpp"

#include "app/cli/text.hpp"
#include "store/contract/url.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace posthorn::cli {
namespace {

using nlohmann::ordered_json;

// See https://no-color.org: any value that is not empty means no.
bool colours_wanted()
{
    // NOLINTBEGIN(concurrency-mt-unsafe): read before the first thread starts
    const char* refusal = std::getenv("NO_COLOR");
    const char* terminal = std::getenv("TERM");
    // NOLINTEND(concurrency-mt-unsafe)
    return (refusal == nullptr || *refusal == '\0') &&
           (terminal == nullptr || std::string_view{terminal} != "dumb");
}

std::string_view code_of(tint colour) noexcept
{
    switch (colour) {
    case tint::none: return "";
    case tint::bold: return "1";
    case tint::dim: return "2";
    case tint::red: return "31";
    case tint::green: return "32";
    case tint::yellow: return "33";
    }
    return "";
}

// What cannot be said on standard error cannot be said anywhere.
void complain(std::string_view text)
{
    static_cast<void>(std::fwrite(text.data(), 1, text.size(), stderr));
}

} // namespace

output::output(form how)
    : form_(how),
      terminal_(::isatty(STDOUT_FILENO) == 1),
      coloured_(terminal_ && colours_wanted()),
      watched_(how == form::text && ::isatty(STDERR_FILENO) == 1)
{}

std::string output::tinted(std::string_view text, tint colour) const
{
    if (!coloured_ || colour == tint::none)
        return std::string(text);
    return fmt::format("\x1b[{}m{}\x1b[0m", code_of(colour), text);
}

void output::write(std::string_view text)
{
    if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size() && errno != EPIPE)
        lost_ = true;
}

void output::line(std::string_view text)
{
    write(text);
    write("\n");
}

void output::document(const ordered_json& value)
{
    line(json_text(value, terminal_ ? 2 : -1));
}

void output::answer(const ordered_json& value, std::string_view text)
{
    if (json())
        document(value);
    else
        line(text);
}

void output::note(std::string_view text) const
{
    if (!json())
        complain(printable_lines(text) + "\n");
}

// A message may quote anything that was typed: URLs with passwords, and control characters.
void output::error(std::string_view code, std::string_view quoting) const
{
    const auto message = contract::without_passwords(quoting);
    if (json())
        complain(json_text({{"error", {{"code", code}, {"message", message}}}}) + "\n");
    else
        complain(fmt::format("posthorn: {}\n", printable(message)));
}

bool output::finish()
{
    if (std::fflush(stdout) != 0 && errno != EPIPE)
        lost_ = true;
    return !lost_;
}

} // namespace posthorn::cli
