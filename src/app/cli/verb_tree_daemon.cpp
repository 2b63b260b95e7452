// The verbs of the daemon.
#include "app/cli/verb_tree.hpp"

namespace posthorn::cli {

void verb_tree::declare_serve()
{
    auto& what = asked_.serve;
    auto& serve =
        verb(root_,
             {"serve", "run as a daemon, as one file says, until SIGTERM or Ctrl-C",
              "  posthorn serve --config posthorn.toml\n"
              "  posthorn serve --config posthorn.toml --check\n"
              "  posthorn serve --config posthorn.toml --check --connect --json\n\n"
              "A small posthorn.toml:\n"
              "  [[stores]]\n"
              "  url = \"sqlite:orders.db\"\n"
              "  [[handlers]]\n"
              "  on = \"orders.*\"\n"
              "  command = [\"./handle-order\"]\n\n"
              "SIGTERM ends it gently, a second one at once; SIGHUP reads the file again.\n"
              "docs/guides/daemon.md has all that a file can say.",
              "something cannot be reached (--connect), nobody can listen at the address,\n"
              "     or a second signal ended it at once"},
             what, &cli::serve);
    serve.add_option("--config", what.config, "the file")->required()->type_name("FILE");
    auto* check = serve.add_flag("--check", what.check, "only look at the file, and open nothing");
    serve.add_flag("--connect", what.connect, "with --check: also open what it names")
        ->needs(check);
}

} // namespace posthorn::cli
