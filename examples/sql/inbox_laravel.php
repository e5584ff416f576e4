<?php
// An order and its job in one transaction on MariaDB, with Laravel's database connection.
use Illuminate\Database\Capsule\Manager;
use Illuminate\Database\Connection;
use Illuminate\Database\QueryException;

require 'Illuminate/Database/autoload.php';

$manager = new Manager();
$manager->addConnection([
    'driver' => 'mysql', 'host' => getenv('DB_HOST'), 'port' => getenv('DB_PORT'), 'database' => getenv('DB_DATABASE'),
    'username' => getenv('DB_USERNAME'), 'password' => getenv('DB_PASSWORD'), 'charset' => 'utf8mb4',
]);
$db = $manager->getConnection(); // in a Laravel program: DB::connection()

// Adds an order, and the job that confirms it.
function order(Connection $db, string $item): void
{
    $id = $db->table('orders')->insertGetId(['item' => $item]);
    $payload = json_encode(['order' => $id, 'item' => $item]);
    $db->table('dibs_inbox')->insert(['queue' => 'mail', 'kind' => 'confirm', 'payload' => $payload]);
}

$db->transaction(fn () => order($db, 'a lamp'));

try {
    $db->transaction(function () use ($db) {
        order($db, 'a chair');
        throw new RuntimeException('no money');
    });
} catch (RuntimeException) {
    // neither the order nor the job exists
}

try {
    $db->table('dibs_inbox')->insert(['queue' => 'mail', 'priority' => -1]);
    exit("a wrong priority was taken\n");
} catch (QueryException $e) {
    [, $code, $message] = $e->errorInfo;
    echo $code, ' | ', $message, "\n";
}
