// URLs taken apart, and options in libnats' form.
#include "transport/nats/settings.hpp"

#include "store/contract/url.hpp"
#include <posthorn/error.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace posthorn::transports {
namespace {

[[noreturn]] void refuse_settings(const std::string& why)
{
    throw error(error_code::invalid_argument, why);
}

void check_settings(natsStatus status, std::string_view what)
{
    if (status != NATS_OK)
        refuse_settings(fmt::format("NATS cannot use {}: {}", what, natsStatus_GetText(status)));
}

// The part before @: user:password, or a token. All servers share it.
void read_user(std::string_view who, nats_access& into)
{
    const auto colon = who.find(':');
    auto first = contract::percent_decoded(who.substr(0, colon));
    nats_access found;
    if (colon == std::string_view::npos) {
        found.token = std::move(first);
    } else {
        found.user = std::move(first);
        found.password = contract::percent_decoded(who.substr(colon + 1));
    }
    const bool is_new = into.user.empty() && into.password.empty() && into.token.empty();
    if (!is_new &&
        (into.user != found.user || into.password != found.password || into.token != found.token))
        refuse_settings("all NATS servers of one URL share one user and password, or one token");
    into.user = std::move(found.user);
    into.password = std::move(found.password);
    into.token = std::move(found.token);
}

// Returns: scheme://host:port.
std::string read_server(std::string_view url, nats_access& who)
{
    constexpr std::string_view separator = "://";
    const auto scheme_end = url.find(separator);
    const auto scheme = url.substr(0, scheme_end);
    if (scheme_end == std::string_view::npos || (scheme != "nats" && scheme != "tls"))
        refuse_settings(fmt::format("'{}' is not the URL of a NATS server; write for example "
                                    "nats://nats.example:4222, or tls:// with TLS",
                                    contract::without_password(url)));
    if (scheme == "tls")
        who.tls = true;
    auto rest = url.substr(scheme_end + separator.size());
    if (const auto at = rest.rfind('@'); at != std::string_view::npos) {
        read_user(rest.substr(0, at), who);
        rest.remove_prefix(at + 1);
    }
    if (rest.ends_with('/'))
        rest.remove_suffix(1);
    std::string_view port = "4222";
    const auto bracket = rest.rfind(']');
    const auto colon = rest.rfind(':');
    if (colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket)) {
        port = rest.substr(colon + 1);
        rest = rest.substr(0, colon);
    }
    std::uint16_t number = 0;
    const auto [end, failed] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (failed != std::errc{} || end != port.data() + port.size() || number == 0)
        refuse_settings(fmt::format("'{}' is no port of a NATS server", port));
    if (rest.empty() || rest.find_first_of("/? ") != std::string_view::npos)
        refuse_settings("the URL of a NATS server names no host; write for example "
                        "nats://nats.example:4222");
    return fmt::format("nats://{}:{}", rest, number);
}

} // namespace

nats_settings nats_settings::parse(std::string_view url, nats_access access)
{
    nats_settings result;
    nats_access in_url;
    while (!url.empty()) {
        const auto one = url.substr(0, url.find(','));
        url.remove_prefix(std::min(url.size(), one.size() + 1));
        result.servers.push_back(read_server(one, in_url));
    }
    if (result.servers.empty())
        refuse_settings("the URL of the NATS server is empty; write for example "
                        "nats://nats.example:4222");
    access.tls =
        access.tls || in_url.tls || !access.ca_file.empty() || !access.certificate_file.empty();
    const bool has_own = !access.user.empty() || !access.token.empty();
    if (!has_own) {
        access.user = std::move(in_url.user);
        access.token = std::move(in_url.token);
    }
    if (access.password.empty() && !has_own)
        access.password = std::move(in_url.password);
    if (access.certificate_file.empty() != access.key_file.empty())
        refuse_settings("a certificate for NATS needs its key, and a key its certificate");
    result.access = std::move(access);
    return result;
}

std::string nats_settings::shown() const
{
    std::string result;
    for (const auto& each : servers)
        result += (result.empty() ? "" : ",") + each;
    return result;
}

nats_options_handle options_from(const nats_settings& settings)
{
    using std::chrono::ceil;
    using std::chrono::milliseconds;
    natsOptions* made = nullptr;
    check_settings(natsOptions_Create(&made), "this machine");
    nats_options_handle result(made);
    std::vector<const char*> servers;
    for (const auto& each : settings.servers)
        servers.push_back(each.c_str());
    check_settings(natsOptions_SetServers(made, servers.data(), static_cast<int>(servers.size())),
                   settings.shown());
    natsOptions_SetName(made, settings.client_name.c_str());
    natsOptions_SetTimeout(made, ceil<milliseconds>(settings.connect_within).count());
    natsOptions_SetPingInterval(made, ceil<milliseconds>(settings.ping_every).count());
    natsOptions_SetMaxPingsOut(made, 2);
    // It would keep what it cannot send, and send it later: then nobody could say what was sent.
    natsOptions_SetAllowReconnect(made, false);
    natsOptions_SetSendAsap(made, true); // our own loop does the writing
    natsOptions_SetIOBufSize(made, 128 << 10);
    const auto& who = settings.access;
    if (!who.user.empty())
        natsOptions_SetUserInfo(made, who.user.c_str(), who.password.c_str());
    if (!who.token.empty())
        natsOptions_SetToken(made, who.token.c_str());
    if (!who.credentials_file.empty())
        check_settings(
            natsOptions_SetUserCredentialsFromFiles(made, who.credentials_file.c_str(), nullptr),
            "the credentials file " + who.credentials_file);
    if (who.tls)
        check_settings(natsOptions_SetSecure(made, true), "TLS");
    if (!who.ca_file.empty())
        check_settings(natsOptions_LoadCATrustedCertificates(made, who.ca_file.c_str()),
                       "the certificates in " + who.ca_file);
    if (!who.certificate_file.empty())
        check_settings(natsOptions_LoadCertificatesChain(made, who.certificate_file.c_str(),
                                                         who.key_file.c_str()),
                       "the certificate in " + who.certificate_file);
    if (!who.verify_server)
        natsOptions_SkipServerVerification(made, true);
    return result;
}

bool is_subject(std::string_view text)
{
    if (text.empty() || text.starts_with('.') || text.ends_with('.'))
        return false;
    char before = '.';
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        const bool ends_part = i + 1 == text.size() || text[i + 1] == '.';
        if (byte <= ' ' || byte == 0x7f || (text[i] == '.' && before == '.') ||
            ((text[i] == '*' || text[i] == '>') && before == '.' && ends_part))
            return false;
        before = text[i];
    }
    return true;
}

bool is_name(std::string_view text)
{
    return is_subject(text) && text.find_first_of(".*>/\\") == std::string_view::npos;
}

} // namespace posthorn::transports
