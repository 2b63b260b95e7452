// Control characters are bytes below 0x20, 0x7f, and in UTF-8 also 0xc2 0x80 to 0xc2 0x9f.
#include "core/one_line.hpp"

#include "core/validation.hpp"

namespace posthorn::core {

std::string on_one_line(std::string_view text, std::size_t bytes_max)
{
    const auto whole = readable(text, bytes_max);
    std::string line;
    line.reserve(whole.size());
    for (std::size_t i = 0; i < whole.size(); ++i) {
        const auto byte = static_cast<unsigned char>(whole[i]);
        const bool c1 =
            byte == 0xc2 && i + 1 < whole.size() && static_cast<unsigned char>(whole[i + 1]) < 0xa0;
        line += byte < 0x20 || byte == 0x7f || c1 ? ' ' : whole[i];
        i += c1 ? 1 : 0;
    }
    return line;
}

} // namespace posthorn::core
