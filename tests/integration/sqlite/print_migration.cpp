// Prints the SQL that makes the tables, for scripts that use no Posthorn afterwards.
#include <posthorn/sqlite.hpp>

#include <iostream>

int main()
{
    std::cout << posthorn::sqlite::migration_sql("sqlite:any.db");
}
